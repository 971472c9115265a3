/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer without pictures, in a thread of the test: it speaks the protocol to one rank over a
 * real link, answers grants from batch_fake, and misbehaves on request.
 */
#ifndef HEADRACE_TESTS_FAKES_PRODUCER_FAKE_H
#define HEADRACE_TESTS_FAKES_PRODUCER_FAKE_H

#include "common/msg.h"
#include "fakes/batch_fake.h"

struct producer_fake;

struct producer_fake_options {
    uint16_t port; /* of the rank, on 127.0.0.1 */
    const char *host;
    uint64_t instance; /* not 0 */
    uint64_t job, fingerprint;
    uint32_t stream_count;
    struct batch_fake streams[STREAMS_MAX];
    uint64_t digest; /* of all its data sets */
    uint32_t classes;
    uint64_t seed; /* of the delays */
    /* Each 0: never. */
    uint32_t delay_us;       /* up to so long before a part */
    uint32_t corrupt_every;  /* the checksum of every so-many-th part is wrong */
    uint32_t wrong_id_every; /* so is a sample id, with a right checksum */
    uint32_t double_every;   /* a part is sent twice, the second time with other bytes */
    uint32_t garbage_after;  /* sends what is no message after so many parts, once */
    uint32_t hang_after;     /* answers PINGs, but sends no part after so many */
    uint32_t nack_after;     /* answers grants with NACK(BAD_BUDGET) after so many parts */
    uint32_t end_after;      /* leaves without a word after so many parts */
};

struct producer_fake *producer_fake_start(const struct producer_fake_options *options);
/* Ends the thread if it still runs. */
void producer_fake_stop(struct producer_fake **producer);

/* Any time. */
uint32_t producer_fake_parts(const struct producer_fake *producer);   /* sent */
uint32_t producer_fake_rejects(const struct producer_fake *producer); /* REJECT_DATA heard */
/* Bucket 0 of the last REJECT_DATA that had buckets. HELLO has the stream's samples there. */
uint32_t producer_fake_wanted(const struct producer_fake *producer);
bool producer_fake_heard_done(const struct producer_fake *producer);

#endif
