/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process asks of the coordinator. A call waits in its own thread for what the link's thread
 * sends and receives; a notice leaves its request behind and returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/coord_client_core.h"

/* ---- the mailbox ---- */

/* Until something has changed. ERR_TIMEOUT. With the lock. */
static enum status wait_change(struct coord_client *client, int64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = deadline_ns / NS_PER_S,
                                      .tv_nsec = deadline_ns % NS_PER_S};
    const int rc = pthread_cond_timedwait(&client->changed, &client->lock, &deadline);
    return rc == ETIMEDOUT && clock_now_ns() >= deadline_ns ? ERR_TIMEOUT : OK;
}

/* With the lock. */
static enum status check_link(const struct coord_client *client, struct err *err)
{
    if (client->link == LINK_JOINED) {
        return OK;
    }
    if (err != NULL) {
        *err = client->failure;
    }
    return client->failure.status;
}

/* With the lock. NULL in *out: none is free before the deadline. */
static enum status take_slot(struct coord_client *client, int64_t deadline_ns,
                             struct coord_slot **out, struct err *err)
{
    for (;;) {
        TRY(check_link(client, err));
        for (size_t i = 0; i < COORD_SLOTS; i++) {
            if (client->slots[i].state == SLOT_FREE) {
                *out = &client->slots[i];
                return OK;
            }
        }
        if (wait_change(client, deadline_ns) != OK) {
            return err_set(err, ERR_TIMEOUT, "too many calls wait for the coordinator");
        }
    }
}

/* With the lock: gives a request its number and leaves it to the thread. */
static void post(struct coord_client *client, struct coord_slot *slot,
                 const struct coord_msg_request *request, struct coord_msg *answer)
{
    slot->request = *request;
    slot->request.number = ++client->next_number;
    slot->answer = answer;
    slot->sent_ns = 0;
    slot->state = SLOT_WAITING;
}

static enum status wait_answer(struct coord_client *client, struct coord_slot *slot,
                               int64_t deadline_ns, struct err *err)
{
    while (slot->state == SLOT_WAITING) {
        TRY(check_link(client, err));
        if (wait_change(client, deadline_ns) != OK && slot->state == SLOT_WAITING) {
            return err_set(err, ERR_TIMEOUT, "no answer from the coordinator at %s to \"%s\"",
                           client->where, slot->request.key);
        }
    }
    return OK;
}

static enum status answer_status(const struct coord_msg *answer, struct err *err)
{
    static const struct {
        enum coord_answer_code code;
        enum status status;
    } CODES[] = {{COORD_ANSWER_CONFLICT, ERR_CONFIG},
                 {COORD_ANSWER_FULL, ERR_RESOURCE},
                 {COORD_ANSWER_CANCELLED, ERR_CANCELLED}};
    if (answer->type != COORD_MSG_ANSWER || answer->answer.code == COORD_ANSWER_OK) {
        return OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(CODES); i++) {
        if (CODES[i].code == answer->answer.code && CODES[i].code == COORD_ANSWER_CANCELLED) {
            return err_set(err, ERR_CANCELLED, "the job was stopped before it began");
        }
        if (CODES[i].code == answer->answer.code) {
            return err_set(err, CODES[i].status, "%.*s", (int)answer->answer.bytes_count,
                           (const char *)answer->answer.bytes);
        }
    }
    return err_set(err, ERR_PEER_WRONG, "the coordinator answered with code %u",
                   answer->answer.code);
}

/* Asks and waits. `total` (or NULL) is changed under the same lock as the number is given, so that
 * of two totals the newer one has the higher number. */
static enum status call(struct coord_client *client, struct coord_msg_request *request,
                        int64_t deadline_ns, struct coord_msg *answer, struct coord_total *total,
                        struct err *err)
{
    struct coord_slot *slot = NULL;
    pthread_mutex_lock(&client->lock);
    enum status status = take_slot(client, deadline_ns, &slot, err);
    if (status == OK) {
        if (total != NULL) {
            total->value += request->value;
            request->value = total->value;
        }
        post(client, slot, request, answer);
        coord_client_wake(client);
        status = wait_answer(client, slot, deadline_ns, err);
        slot->state = SLOT_FREE;
        pthread_cond_broadcast(&client->changed);
    }
    pthread_mutex_unlock(&client->lock);
    return status == OK ? answer_status(answer, err) : status;
}

static void set_key(struct coord_msg_request *request, const char *key)
{
    const size_t count = strlen(key);
    CHECK(count > 0 && count < COORD_KEY_BYTES);
    memcpy(request->key, key, count + 1);
}

/* ---- calls ---- */

enum status coord_put(struct coord_client *client, const char *key, const void *value, size_t count,
                      int64_t deadline_ns, struct err *err)
{
    CHECK(count <= COORD_VALUE_BYTES);
    struct coord_msg_request request = {.kind = COORD_REQUEST_PUT, .bytes_count = (uint32_t)count};
    struct coord_msg answer;
    set_key(&request, key);
    memcpy(request.bytes, value, count);
    return call(client, &request, deadline_ns, &answer, NULL, err);
}

enum status coord_get(struct coord_client *client, const char *key, int64_t deadline_ns,
                      void *value, size_t *count_out, struct err *err)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_GET};
    struct coord_msg answer;
    set_key(&request, key);
    TRY(call(client, &request, deadline_ns, &answer, NULL, err));
    memcpy(value, answer.answer.bytes, answer.answer.bytes_count);
    *count_out = answer.answer.bytes_count;
    return OK;
}

enum status coord_agree(struct coord_client *client, const char *key, uint64_t value,
                        int64_t deadline_ns, struct err *err)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_AGREE, .value = value};
    struct coord_msg answer;
    set_key(&request, key);
    return call(client, &request, deadline_ns, &answer, NULL, err);
}

enum status coord_sum(struct coord_client *client, const char *name, uint32_t count, uint64_t value,
                      int64_t deadline_ns, uint64_t *sum_out, struct err *err)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_SUM, .count = count, .value = value};
    struct coord_msg answer;
    set_key(&request, name);
    TRY(call(client, &request, deadline_ns, &answer, NULL, err));
    *sum_out = answer.answer.value;
    return OK;
}

enum status coord_barrier(struct coord_client *client, const char *name, uint32_t count,
                          int64_t deadline_ns, struct err *err)
{
    uint64_t sum;
    return coord_sum(client, name, count, 0, deadline_ns, &sum, err);
}

static struct coord_total *find_total(struct coord_client *client, const char *name)
{
    for (uint32_t i = 0; i < client->total_count; i++) {
        if (strcmp(client->totals[i].key, name) == 0) {
            return &client->totals[i];
        }
    }
    if (client->total_count == COORD_TOTALS) {
        return NULL;
    }
    struct coord_total *total = &client->totals[client->total_count++];
    memcpy(total->key, name, strlen(name) + 1);
    return total;
}

enum status coord_add(struct coord_client *client, const char *name, uint64_t delta,
                      int64_t deadline_ns, uint64_t *sum_out, struct err *err)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_ADD, .value = delta};
    struct coord_msg answer;
    set_key(&request, name);
    pthread_mutex_lock(&client->lock);
    struct coord_total *total = find_total(client, name);
    pthread_mutex_unlock(&client->lock);
    if (total == NULL) {
        return err_set(err, ERR_RESOURCE, "no room for total \"%s\": at most %d names", name,
                       COORD_TOTALS);
    }
    TRY(call(client, &request, deadline_ns, &answer, total, err));
    *sum_out = answer.answer.value;
    return OK;
}

enum status coord_report_crash(struct coord_client *client, uint32_t stream, uint64_t sample,
                               int64_t deadline_ns, struct err *err)
{
    struct coord_msg_request request = {
        .kind = COORD_REQUEST_CRASH, .count = stream, .value = sample};
    struct coord_msg answer;
    return call(client, &request, deadline_ns, &answer, NULL, err);
}

/* ---- the roster ---- */

void roster_fini(struct roster *roster)
{
    free(roster->ranks);
    memset(roster, 0, sizeof(*roster));
}

static enum status take_page(struct roster *roster, const struct coord_msg_roster *page,
                             uint32_t first, struct err *err)
{
    if (roster->ranks == NULL) {
        roster->ranks = calloc(page->rank_count, sizeof(*roster->ranks));
        if (roster->ranks == NULL) {
            return err_set(err, ERR_RESOURCE, "no memory for %u ranks", page->rank_count);
        }
        roster->job = page->job;
        roster->seed = page->seed;
        roster->global_batch = page->global_batch;
        roster->rank_count = page->rank_count;
        roster->stream_count = page->stream_count;
        memcpy(roster->streams, page->streams, sizeof(page->streams));
    }
    if (page->first != first || page->rank_count != roster->rank_count) {
        return err_set(err, ERR_PEER_WRONG,
                       "roster: got the page of rank %u of %u, wanted %u of %u", page->first,
                       page->rank_count, first, roster->rank_count);
    }
    memcpy(roster->ranks + first, page->ranks, page->count * sizeof(page->ranks[0]));
    return OK;
}

enum status coord_roster(struct coord_client *client, int64_t deadline_ns, struct roster *out,
                         struct err *err)
{
    struct roster roster = {0};
    struct coord_msg answer;
    uint32_t have = 0;
    do {
        struct coord_msg_request request = {.kind = COORD_REQUEST_ROSTER, .count = have};
        enum status status = call(client, &request, deadline_ns, &answer, NULL, err);
        if (status == OK && answer.type != COORD_MSG_ROSTER) {
            status = err_set(err, ERR_PEER_WRONG, "roster: got an answer without a roster");
        }
        if (status == OK) {
            status = take_page(&roster, &answer.roster, have, err);
        }
        if (status != OK) {
            roster_fini(&roster);
            return status;
        }
        have += answer.roster.count;
    } while (have < roster.rank_count);
    *out = roster;
    return OK;
}

/* ---- notices ---- */

/* The request has its kind and numbers. */
static void give_notice(struct coord_client *client, struct coord_msg_request *request,
                        const char *text)
{
    const size_t bytes = strlen(text);
    request->bytes_count = (uint32_t)(bytes < TEXT_BYTES_MAX ? bytes : TEXT_BYTES_MAX - 1);
    memcpy(request->bytes, text, request->bytes_count);
    pthread_mutex_lock(&client->lock);
    struct coord_slot *slot = &client->notices[request->kind - COORD_REQUEST_FAIL];
    if (slot->state == SLOT_FREE) { /* else it was given before */
        post(client, slot, request, NULL);
    }
    pthread_mutex_unlock(&client->lock);
    coord_client_wake(client);
}

void coord_fail(struct coord_client *client, const char *text)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_FAIL};
    give_notice(client, &request, text);
}

void coord_suspect(struct coord_client *client, const char *text)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_SUSPECT};
    give_notice(client, &request, text);
}

void coord_stop(struct coord_client *client)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_STOP};
    give_notice(client, &request, "");
}

void coord_done(struct coord_client *client)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_DONE};
    give_notice(client, &request, "");
}

void coord_producer_failed(struct coord_client *client, int code, const char *text)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_PRODUCER_FAILED,
                                        .count = (uint32_t)code};
    give_notice(client, &request, text);
}

void coord_give_up(struct coord_client *client, uint64_t step)
{
    struct coord_msg_request request = {.kind = COORD_REQUEST_GIVE_UP, .value = step};
    give_notice(client, &request, "");
}

/* ---- events and steps ---- */

int coord_event_fd(const struct coord_client *client)
{
    return queue_fd(client->events);
}

enum status coord_next_event(struct coord_client *client, struct coord_event *out)
{
    return queue_pop(client->events, 0, out) == OK ? OK : ERR_AGAIN;
}

enum status coord_may_begin(struct coord_client *client, uint64_t step, int64_t deadline_ns,
                            bool *may_out, struct err *err)
{
    pthread_mutex_lock(&client->lock);
    enum status status = check_link(client, err);
    while (status == OK && client->promised && !client->stop_settled && step >= client->promise) {
        if (wait_change(client, deadline_ns) != OK) {
            status = err_set(err, ERR_TIMEOUT, "the ranks did not agree on a last step in time");
            break;
        }
        status = check_link(client, err);
    }
    if (status == OK) {
        *may_out = !client->stop_settled || step < client->stop_at;
        if (*may_out) {
            client->begun = step + 1;
        }
    }
    pthread_mutex_unlock(&client->lock);
    return status;
}

void coord_stop_state(struct coord_client *client, struct coord_stop_state *out)
{
    pthread_mutex_lock(&client->lock);
    *out = (struct coord_stop_state){.settled = client->stop_settled,
                                     .given_up = client->given_up,
                                     .step = client->stop_at,
                                     .begun = client->begun};
    pthread_mutex_unlock(&client->lock);
}
