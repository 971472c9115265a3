/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DATA's header frame. The bytes of the part are the second frame; whoever copies them verifies the
 * sum and that the frame has `length` bytes.
 */
#include "common/msg_codec.h"

/* The range of a batch: PARTS_MAX parts of at most PART_BYTES_MAX. */
#define BATCH_BYTES_MAX ((uint64_t)PARTS_MAX * PART_BYTES_MAX)

enum { FLAG_LAST = 1 };

static void put_durations(struct wire_writer *w, const struct msg_data *data)
{
    const uint64_t durations[] = {data->queued_ns, data->read_ns, data->decode_ns, data->augment_ns,
                                  data->send_ns};
    for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
        wire_put64(w, data->last ? durations[i] : 0);
    }
}

static void get_durations(struct wire_reader *r, struct msg_data *data)
{
    const uint64_t max = data->last ? UINT64_MAX : 0;
    data->queued_ns = wire_get64_in(r, "queued_ns", 0, max);
    data->read_ns = wire_get64_in(r, "read_ns", 0, max);
    data->decode_ns = wire_get64_in(r, "decode_ns", 0, max);
    data->augment_ns = wire_get64_in(r, "augment_ns", 0, max);
    data->send_ns = wire_get64_in(r, "send_ns", 0, max);
}

void msg_put_data(struct wire_writer *w, const struct msg *msg)
{
    const struct msg_data *data = &msg->data;
    wire_put32_in(w, data->lease, 1, UINT32_MAX);                      /*   0 */
    wire_put32_in(w, data->stream, 0, STREAMS_MAX - 1);                /*   4 */
    wire_put64(w, data->step);                                         /*   8 */
    wire_put32(w, data->epoch);                                        /*  16 */
    wire_put32(w, data->last ? FLAG_LAST : 0);                         /*  20 */
    wire_put32_in(w, data->part_count, 1, PARTS_MAX);                  /*  24 */
    wire_put32_in(w, data->part, 0, data->part_count - 1);             /*  28 */
    wire_put32_in(w, data->length, 1, PART_BYTES_MAX);                 /*  32 */
    wire_put32_in(w, data->substitution_count, 0, SUBST_MAX);          /*  36 */
    wire_put64_in(w, data->offset, 0, BATCH_BYTES_MAX - data->length); /*  40 */
    wire_put64(w, data->sum_low);                                      /*  48 */
    wire_put64(w, data->sum_high);                                     /*  56 */
    put_durations(w, data);                                            /*  64 */
    for (uint32_t i = 0; i < data->substitution_count; i++) {          /* 104 */
        const struct substitution *s = &data->substitutions[i];
        wire_put32(w, s->row);
        wire_put32(w, s->attempt);
        wire_put64(w, s->bad);
        wire_put64(w, s->taken);
    }
}

void msg_get_data(struct wire_reader *r, struct msg *out)
{
    struct msg_data *data = &out->data;
    data->lease = wire_get32_in(r, "lease", 1, UINT32_MAX);
    data->stream = wire_get32_in(r, "stream", 0, STREAMS_MAX - 1);
    data->step = wire_get64(r, "step");
    data->epoch = wire_get32(r, "epoch");
    data->last = wire_get32_in(r, "flags", 0, FLAG_LAST) == FLAG_LAST;
    data->part_count = wire_get32_in(r, "part_count", 1, PARTS_MAX);
    data->part = wire_get32_in(r, "part", 0, data->part_count - 1);
    data->length = wire_get32_in(r, "length", 1, PART_BYTES_MAX);
    data->substitution_count = wire_get32_in(r, "substitution_count", 0, SUBST_MAX);
    data->offset = wire_get64_in(r, "offset", 0, BATCH_BYTES_MAX - data->length);
    data->sum_low = wire_get64(r, "sum_low");
    data->sum_high = wire_get64(r, "sum_high");
    get_durations(r, data);
    for (uint32_t i = 0; i < data->substitution_count; i++) {
        struct substitution *s = &data->substitutions[i];
        s->row = wire_get32(r, "row");
        s->attempt = wire_get32(r, "attempt");
        s->bad = wire_get64(r, "bad");
        s->taken = wire_get64(r, "taken");
    }
}
