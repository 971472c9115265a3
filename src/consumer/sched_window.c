/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and their windows: which steps are open, and which of their parts lie in their slots. A
 * step owns its slot from entering the window until it is consumed, whoever makes it.
 */
#include <string.h>

#include "consumer/sched_internal.h"

static uint32_t written_words(const struct layout *layout)
{
    return (layout->part_count + 63) / 64;
}

uint64_t sched_window_end(const struct sched *sched, uint32_t stream)
{
    const struct sched_stream *s = &sched->streams[stream];
    uint64_t slots = sched->options.streams[stream].slots;
    if (sched_lacks(sched, SCHED_MUTANT_SLOT_NOT_FREE)) {
        slots++;
    }
    const uint64_t end = s->end - s->base < slots ? s->end : s->base + slots;
    if (sched_lacks(sched, SCHED_MUTANT_WINDOW_OF_EPOCH) && s->fixed) {
        const uint64_t epoch_end =
            s->base - s->base % s->data.steps_per_epoch + s->data.steps_per_epoch;
        return epoch_end < end ? epoch_end : end;
    }
    return end;
}

struct sched_step *sched_window_step(struct sched *sched, uint32_t stream, uint64_t gstep)
{
    struct sched_stream *s = &sched->streams[stream];
    if (gstep < s->base || gstep >= sched_window_end(sched, stream)) {
        return NULL;
    }
    return &s->steps[gstep % sched->options.streams[stream].slots];
}

bool sched_window_is_written(const struct sched_step *step, uint32_t part)
{
    return (step->written[part / 64] >> (part % 64) & 1) != 0;
}

void sched_window_write(struct sched *sched, uint32_t stream, struct sched_step *step,
                        uint32_t part)
{
    if (sched_window_is_written(step, part)) {
        return;
    }
    step->written[part / 64] |= UINT64_C(1) << (part % 64);
    step->missing--;
    if (step->missing == 0) {
        sched->streams[stream].waiting--;
        sched_lease_cancel_step(sched, step);
    }
}

void sched_window_missing(const struct sched *sched, uint32_t stream, const struct sched_step *step,
                          uint32_t *first_out, uint32_t *count_out)
{
    const uint32_t parts = sched->options.streams[stream].layout->part_count;
    CHECK(step->missing > 0);
    uint32_t first = 0;
    uint32_t end = parts;
    if (!sched_lacks(sched, SCHED_MUTANT_WHOLE_RANGE)) {
        while (sched_window_is_written(step, first)) {
            first++;
        }
        while (sched_window_is_written(step, end - 1)) {
            end--;
        }
    }
    *first_out = first;
    *count_out = end - first;
}

uint64_t sched_window_range_bytes(const struct sched *sched, uint32_t stream, uint32_t first,
                                  uint32_t count)
{
    const struct layout *layout = sched->options.streams[stream].layout;
    const uint32_t last = first + count - 1;
    return layout_part_offset(layout, last) + layout_part_length(layout, last) -
           layout_part_offset(layout, first);
}

bool sched_window_is_waiting(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        if (sched->streams[i].waiting > 0) {
            return true;
        }
    }
    return false;
}

void sched_window_clear(struct sched *sched, uint32_t stream, struct sched_step *step)
{
    const struct layout *layout = sched->options.streams[stream].layout;
    memset(step->written, 0, written_words(layout) * sizeof(*step->written));
    step->missing = layout->part_count;
}

/* A step enters the window, in a slot that is free. */
static void enter(struct sched *sched, uint32_t stream, uint64_t gstep)
{
    const struct sched_stream_options *options = &sched->options.streams[stream];
    struct sched_stream *s = &sched->streams[stream];
    if (!sched_window_is_waiting(sched)) {
        sched->progress_ns = sched->now_ns;
    }
    struct sched_step *step = &s->steps[gstep % options->slots];
    *step = (struct sched_step){.written = step->written};
    sched_window_clear(sched, stream, step);
    s->waiting++;
}

void sched_window_open(struct sched *sched, uint32_t stream, uint64_t first, uint64_t end)
{
    struct sched_stream *s = &sched->streams[stream];
    s->base = first;
    s->announced = first;
    s->end = end;
    s->waiting = 0;
    const uint64_t window_end = sched_window_end(sched, stream);
    for (uint64_t gstep = first; gstep < window_end; gstep++) {
        enter(sched, stream, gstep);
    }
}

void sched_window_advance(struct sched *sched, uint32_t stream)
{
    struct sched_stream *s = &sched->streams[stream];
    CHECK(s->base < s->announced);
    const uint64_t before = sched_window_end(sched, stream);
    s->base++;
    sched->consumed++;
    for (uint64_t gstep = before; gstep < sched_window_end(sched, stream); gstep++) {
        enter(sched, stream, gstep);
    }
}
