/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of batches: is a DATA message what its lease says, is it wanted, where do its bytes go, and
 * what follows from their being good or bad. A part is credited when it comes, whatever becomes of
 * it; its bit is set only when its bytes lie in the slot and are right.
 */
#include <inttypes.h>

#include "consumer/sched_internal.h"

/* Why a DATA header cannot be for this lease, or NULL. */
static const char *data_wrong(const struct sched *sched, const struct msg_data *data)
{
    if (data->stream >= sched->options.stream_count || !sched->streams[data->stream].fixed) {
        return "DATA of a stream that does not exist";
    }
    const struct layout *layout = sched->options.streams[data->stream].layout;
    if (data->step >= sched->streams[data->stream].data.steps_per_epoch) {
        return "DATA of a step that does not exist";
    }
    if (data->part_count != layout->part_count || data->part >= layout->part_count ||
        data->offset != layout_part_offset(layout, data->part) ||
        data->length != layout_part_length(layout, data->part)) {
        return "DATA whose part is not of the batch's layout";
    }
    return NULL;
}

static uint64_t data_gstep(const struct sched *sched, const struct msg_data *data)
{
    return data->epoch * sched->streams[data->stream].data.steps_per_epoch + data->step;
}

/* Is this part wanted? Counts those that are not. */
static bool wanted(struct sched *sched, const struct msg_data *data, uint64_t gstep)
{
    const struct sched_step *step = sched_window_step(sched, data->stream, gstep);
    if (step == NULL) {
        sched->stats.parts_late++;
        return sched_lacks(sched, SCHED_MUTANT_OUTSIDE_WINDOW);
    }
    if (sched_window_is_written(step, data->part)) {
        sched->stats.parts_duplicate++;
        return sched_lacks(sched, SCHED_MUTANT_OVERWRITE);
    }
    return true;
}

/* The session that a part belongs to, or NULL. */
static struct sched_session *data_session(struct sched *sched, uint64_t peer, uint64_t id)
{
    struct sched_session *session = sched_session_find(sched, peer, id);
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (session == NULL && sched->ids[i] != 0 && sched_lacks(sched, SCHED_MUTANT_DEAD_DATA)) {
            session = &sched->sessions[i];
        }
    }
    return session;
}

bool sched_on_data(struct sched *sched, uint64_t peer, const struct msg *msg, int64_t now_ns,
                   struct sched_place *out)
{
    sched->now_ns = now_ns;
    const struct msg_data *data = &msg->data;
    struct sched_session *session = data_session(sched, peer, msg->session);
    if (session == NULL) {
        sched->stats.parts_late++;
        return false;
    }
    session->heard_ns = now_ns;
    const char *wrong = data_wrong(sched, data);
    if (wrong != NULL) {
        sched_session_end(sched, session, true, wrong);
        return false;
    }
    const uint64_t gstep = data_gstep(sched, data);
    struct sched_lease *lease = sched_lease_find(sched, session, data->lease);
    if (lease == NULL) {
        sched->stats.parts_late++;
        return false;
    }
    if (lease->stream != data->stream || lease->gstep != gstep ||
        data->part - lease->first_part >= lease->part_count) {
        sched_session_end(sched, session, true, "DATA of a part that its lease does not hold");
        return false;
    }
    const bool live = lease->live;
    sched_lease_receive(sched, session, lease, data->length);
    if (!wanted(sched, data, gstep) || (!live && sched_lacks(sched, SCHED_MUTANT_LIVE_ONLY))) {
        if (sched_lacks(sched, SCHED_MUTANT_UNWANTED_NO_CREDIT)) {
            session->in_flight_bytes += data->length;
        }
        return false;
    }
    if (sched_lacks(sched, SCHED_MUTANT_BIT_FIRST)) {
        sched_window_write(sched, data->stream, sched_window_step(sched, data->stream, gstep),
                           data->part);
    }
    const struct sched_stream_options *options = &sched->options.streams[data->stream];
    *out = (struct sched_place){
        .stream = data->stream,
        .slot = (uint32_t)(gstep % options->slots),
        .gstep = gstep,
        .offset = data->offset,
        .length = data->length,
    };
    return true;
}

static void part_good(struct sched *sched, struct sched_producer *producer,
                      const struct msg_data *data, struct sched_step *step)
{
    sched->stats.parts_written++;
    sched->progress_ns = sched->now_ns;
    sched_lease_forgive(producer);
    sched_window_write(sched, data->stream, step, data->part);
}

static void part_bad(struct sched *sched, struct sched_session *session,
                     const struct msg_data *data)
{
    struct sched_producer *producer = &sched->producers[session->producer];
    sched->stats.parts_bad++;
    sched_lease_fail(sched, producer);
    sched_say_text(sched, SCHED_LOG, session,
                   "%s/%u: part %u of step %" PRIu64 " of stream %s is bad", producer->host,
                   producer->index, data->part, data_gstep(sched, data),
                   sched->options.streams[data->stream].name);
    if (sched_lacks(sched, SCHED_MUTANT_BAD_NO_CREDIT)) {
        session->in_flight_bytes += data->length;
    }
    struct sched_lease *lease = sched_lease_find(sched, session, data->lease);
    if (lease != NULL && lease->live && !sched_lacks(sched, SCHED_MUTANT_BAD_KEEPS_LEASE)) {
        sched_lease_cancel(sched, session, lease);
    }
}

void sched_on_written(struct sched *sched, uint64_t peer, const struct msg *msg, bool good,
                      int64_t now_ns)
{
    sched->now_ns = now_ns;
    struct sched_session *session = data_session(sched, peer, msg->session);
    const uint64_t gstep = data_gstep(sched, &msg->data);
    struct sched_step *step = sched_window_step(sched, msg->data.stream, gstep);
    CHECK(session != NULL && step != NULL);
    if (good) {
        part_good(sched, &sched->producers[session->producer], &msg->data, step);
    } else {
        part_bad(sched, session, &msg->data);
    }
}
