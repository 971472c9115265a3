/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before NCCL: do the ranks fit together? NCCL itself finds a difference late, in its own log only,
 * or hangs. Each rank puts its notice under a key of its own: lines of text, host and GPU first,
 * then the facts as "name=value". Rank 0 reads them all and puts the verdict: a status and, where
 * that is OK, the unique id, else the error's text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "consumer/coll_nccl_internal.h"

#define VERDICT_KEY "nccl/verdict"

enum { KEY_BYTES = 32, PLACE_BYTES = HOST_BYTES_MAX + CUDA_PCI_ID_BYTES };

struct notice {
    char place[PLACE_BYTES]; /* "algo-2, GPU 0000:3b:00.0" */
    char facts[COLL_VALUE_BYTES];
};

/* ---- notices ---- */

static enum status add_line(char *text, const char *name, const char *value, struct err *err)
{
    const size_t used = strlen(text);
    const int more =
        snprintf(text + used, COLL_VALUE_BYTES - PLACE_BYTES - used, "%s=%s\n", name, value);
    if (more < 0 || (size_t)more >= COLL_VALUE_BYTES - PLACE_BYTES - used) {
        return err_set(err, ERR_INTERNAL, "NCCL: too much to tell the other ranks at %s", name);
    }
    return OK;
}

static enum status make_notice(const struct coll_options *options, const char *pci_id,
                               struct notice *out, struct err *err)
{
    char size[16];
    snprintf(size, sizeof(size), "%u", options->size);
    memset(out, 0, sizeof(*out));
    snprintf(out->place, sizeof(out->place), "%s, GPU %s", options->host, pci_id);
    TRY(add_line(out->facts, "NCCL", options->gpu->nccl->found.version_text, err));
    TRY(add_line(out->facts, "CUDA runtime", options->gpu->cuda->runtime.found.version_text, err));
    TRY(add_line(out->facts, "CUDA driver", options->gpu->cuda->driver.found.version_text, err));
    TRY(add_line(out->facts, "world size", size, err));
    for (uint32_t i = 0; i < options->fact_count; i++) {
        TRY(add_line(out->facts, options->facts[i].name, options->facts[i].value, err));
    }
    return OK;
}

static void make_key(uint32_t rank, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "nccl/rank/%u", rank);
}

static enum status put_notice(const struct coll_options *options, const struct notice *notice,
                              struct err *err)
{
    char key[KEY_BYTES];
    char text[COLL_VALUE_BYTES];
    const int len = snprintf(text, sizeof(text), "%s\n%s", notice->place, notice->facts);
    CHECK(len > 0 && len < (int)sizeof(text));
    make_key(options->rank, key);
    return options->store->put(options->store->context, key, text, (size_t)len,
                               options->deadline_ns, err);
}

static enum status get_notice(const struct coll_options *options, uint32_t rank, struct notice *out,
                              struct err *err)
{
    char key[KEY_BYTES];
    uint8_t text[COLL_VALUE_BYTES];
    size_t count = 0;
    make_key(rank, key);
    const enum status status =
        options->store->get(options->store->context, key, options->deadline_ns, text, &count, err);
    if (status != OK) {
        return err_prefix(err, "NCCL: waiting for rank %u", rank);
    }
    const uint8_t *end = memchr(text, '\n', count);
    const size_t place = end == NULL ? 0 : (size_t)(end - text);
    if (end == NULL || place >= sizeof(out->place) || count >= sizeof(text)) {
        return err_set(err, ERR_PEER_WRONG, "NCCL: rank %u's notice cannot be read", rank);
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->place, text, place);
    memcpy(out->facts, end + 1, count - place - 1);
    return OK;
}

/* ---- rank 0 compares ---- */

static enum status compare_facts(const struct notice *own, const struct notice *other,
                                 uint32_t rank, struct err *err)
{
    const char *a = own->facts;
    const char *b = other->facts;
    while (*a != '\0' || *b != '\0') {
        const int a_len = (int)strcspn(a, "\n");
        const int b_len = (int)strcspn(b, "\n");
        if (a_len != b_len || memcmp(a, b, (size_t)a_len) != 0) {
            return err_set(err, ERR_CONFIG,
                           "NCCL: ranks differ: %.*s on rank 0 (%s), %.*s on rank %u (%s)", a_len,
                           a, own->place, b_len, b, rank, other->place);
        }
        a += a_len + (a[a_len] == '\n');
        b += b_len + (b[b_len] == '\n');
    }
    return OK;
}

static enum status check_place(const char (*places)[PLACE_BYTES], uint32_t rank, struct err *err)
{
    for (uint32_t other = 0; other < rank; other++) {
        if (strcmp(places[other], places[rank]) == 0) {
            return err_set(err, ERR_CONFIG,
                           "NCCL: rank %u and rank %u share one GPU (%s); start no more ranks on a "
                           "host than it has GPUs (ranks_per_host)",
                           other, rank, places[rank]);
        }
    }
    return OK;
}

static enum status compare_all(const struct coll_options *options, const struct notice *own,
                               struct err *err)
{
    struct notice *other = calloc(1, sizeof(*other));
    char(*places)[PLACE_BYTES] = calloc(options->size, sizeof(*places));
    enum status status = OK;
    if (other == NULL || places == NULL) {
        status = err_errno(err, ERR_RESOURCE, "NCCL: notices of %u ranks", options->size);
    } else {
        memcpy(places[0], own->place, sizeof(own->place));
    }
    for (uint32_t rank = 1; status == OK && rank < options->size; rank++) {
        status = get_notice(options, rank, other, err);
        if (status == OK) {
            status = compare_facts(own, other, rank, err);
        }
        if (status == OK) {
            memcpy(places[rank], other->place, sizeof(other->place));
            status = check_place((const char(*)[PLACE_BYTES])places, rank, err);
        }
    }
    free(places);
    free(other);
    return status;
}

/* ---- the verdict ---- */

struct verdict {
    int32_t status;
    union {
        struct nccl_unique_id id;
        char text[ERR_MESSAGE_BYTES];
    };
};

/* All are told, of a failure here too. */
static enum status tell(const struct coll_options *options, enum status status,
                        const struct nccl_unique_id *id, struct err *err)
{
    struct verdict verdict = {.status = status};
    if (status == OK) {
        verdict.id = *id;
    } else {
        snprintf(verdict.text, sizeof(verdict.text), "%s", err->message);
    }
    struct err put_err = {0};
    const enum status told =
        options->store->put(options->store->context, VERDICT_KEY, &verdict, sizeof(verdict),
                            options->deadline_ns + NCCL_VERDICT_NS, &put_err);
    if (status == OK && told != OK) {
        *err = put_err;
        return told;
    }
    return status;
}

static enum status hear(const struct coll_options *options, struct nccl_unique_id *id_out,
                        struct err *err)
{
    uint8_t value[COLL_VALUE_BYTES];
    struct verdict verdict;
    size_t count = 0;
    const enum status status =
        options->store->get(options->store->context, VERDICT_KEY,
                            options->deadline_ns + NCCL_VERDICT_NS, value, &count, err);
    if (status != OK) {
        return err_prefix(err, "NCCL: waiting for rank 0");
    }
    if (count != sizeof(verdict)) {
        return err_set(err, ERR_PEER_WRONG, "NCCL: rank 0's verdict cannot be read");
    }
    memcpy(&verdict, value, sizeof(verdict));
    if (verdict.status != OK) {
        verdict.text[sizeof(verdict.text) - 1] = '\0';
        /* Only a difference is everybody's. */
        return err_set(err, verdict.status == ERR_CONFIG ? ERR_CONFIG : ERR_PEER_GONE, "%s%s",
                       verdict.status == ERR_CONFIG ? "" : "rank 0: ", verdict.text);
    }
    *id_out = verdict.id;
    return OK;
}

static enum status judge(const struct coll_options *options, const struct notice *own,
                         struct nccl_unique_id *id_out, struct err *err)
{
    const struct nccl_api *nccl = options->gpu->nccl;
    TRY(compare_all(options, own, err));
    const unsigned error = nccl->ncclGetUniqueId(id_out);
    return error == NCCL_OK ? OK : nccl_error(nccl, NULL, false, "ncclGetUniqueId", error, err);
}

enum status nccl_meet(const struct coll_options *options, const char *pci_id,
                      struct nccl_unique_id *id_out, struct err *err)
{
    struct notice *own = calloc(1, sizeof(*own));
    if (own == NULL) {
        return err_errno(err, ERR_RESOURCE, "NCCL: notice to the other ranks");
    }
    struct nccl_unique_id id = {0};
    enum status status = make_notice(options, pci_id, own, err);
    if (options->rank == 0) {
        if (status == OK) {
            status = judge(options, own, &id, err);
        }
        status = tell(options, status, &id, err);
    } else if (status == OK) {
        status = put_notice(options, own, err);
        if (status == OK) {
            status = hear(options, &id, err);
        }
    }
    free(own);
    if (status == OK) {
        *id_out = id;
    }
    return status;
}
