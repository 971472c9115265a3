/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and their sessions. A producer is known by host and index and remembered after its
 * session has ended; a session is one life of it with this rank, on one connection. Nothing that
 * belongs to an ended session, or comes from another connection, changes anything.
 *
 *   HELLO -> session -> ended by: silence, BYE, garbage, a broken connection, a newer HELLO
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/sched_internal.h"

static uint32_t index_of(const struct sched *sched, const struct sched_session *session)
{
    return (uint32_t)(session - sched->sessions);
}

static struct sched_session *session_of_peer(struct sched *sched, uint64_t peer)
{
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0 && sched->sessions[i].peer == peer) {
            return &sched->sessions[i];
        }
    }
    return NULL;
}

struct sched_session *sched_session_find(struct sched *sched, uint64_t peer, uint64_t id)
{
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != id || id == 0) {
            continue;
        }
        const bool own = sched->sessions[i].peer == peer;
        return own || sched_lacks(sched, SCHED_MUTANT_ANY_CONNECTION) ? &sched->sessions[i] : NULL;
    }
    return NULL;
}

bool sched_session_is_done(const struct sched *sched)
{
    return sched->finishing && !sched_lacks(sched, SCHED_MUTANT_NO_DONE);
}

void sched_session_pause(struct sched *sched, struct sched_session *session)
{
    session->paused_ns = sched->now_ns + sched->options.ping_interval_ns;
}

void sched_session_end(struct sched *sched, struct sched_session *session, bool failed,
                       const char *why)
{
    struct sched_producer *producer = &sched->producers[session->producer];
    const uint32_t leases = session->leases_open;
    const uint64_t in_flight_bytes = session->in_flight_bytes;
    sched_lease_drop_all(sched, session);
    if (sched_lacks(sched, SCHED_MUTANT_END_NO_CREDIT)) {
        session->in_flight_bytes = in_flight_bytes;
    }
    if (failed && leases > 0) {
        sched_lease_fail(sched, producer);
    }
    sched_say_text(sched, SCHED_SESSION_ENDED, session,
                   "%s/%u: session ended: %s (%u leases, heard %" PRId64 " ms ago)", producer->host,
                   producer->index, why, leases, (sched->now_ns - session->heard_ns) / 1000000);
    producer->session = NONE;
    producer->seen_ns = session->heard_ns;
    sched->stats.sessions_ended++;
    sched->ids[index_of(sched, session)] = 0;
    session->id = 0;
}

void sched_session_end_peer(struct sched *sched, uint64_t peer, const char *why)
{
    struct sched_session *session = session_of_peer(sched, peer);
    while (session != NULL) {
        sched_session_end(sched, session, true, why);
        session = session_of_peer(sched, peer);
    }
}

void sched_session_unwelcome(struct sched *sched, struct sched_session *session)
{
    if (--session->welcomes > 0) {
        return;
    }
    sched->producers[session->producer].session_id = 0;
    sched_session_end(sched, session, false, "its WELCOME could not be sent");
}

static bool same_place(const struct sched_producer *producer, const struct msg_hello *hello)
{
    return producer->index == hello->index && strcmp(producer->host, hello->host) == 0;
}

/* The record of a producer, perhaps that of one not seen for the longest time; NULL: all live. */
static struct sched_producer *producer_get(struct sched *sched, const struct msg_hello *hello)
{
    struct sched_producer *oldest = NULL;
    for (uint32_t i = 0; i < sched->producers_max; i++) {
        struct sched_producer *p = &sched->producers[i];
        if (p->host[0] != '\0' && same_place(p, hello)) {
            return p;
        }
        if (p->session == NONE && (oldest == NULL || p->seen_ns < oldest->seen_ns)) {
            oldest = p;
        }
    }
    if (oldest == NULL) {
        return NULL;
    }
    *oldest = (struct sched_producer){.index = hello->index, .session = NONE};
    (void)snprintf(oldest->host, sizeof(oldest->host), "%s", hello->host);
    oldest->local =
        sched->options.local_host != NULL && strcmp(hello->host, sched->options.local_host) == 0;
    return oldest;
}

static struct sched_session *session_get(struct sched *sched)
{
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] == 0) {
            return &sched->sessions[i];
        }
    }
    return NULL;
}

/* The first stream whose data set is known and another than this HELLO's, or NONE. */
static uint32_t data_differs(const struct sched *sched, const struct msg_hello *hello)
{
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        const struct sched_stream *s = &sched->streams[i];
        if (s->fixed && (hello->streams[i].samples != s->data.samples ||
                         hello->streams[i].digest != s->data.digest)) {
            return i;
        }
    }
    return NONE;
}

/* What is fixed of a stream has no buckets (a checkpoint knows only the digest), so they are
 * learnt from the first that has these very data. */
static void data_learn_buckets(struct sched *sched, const struct msg_hello *hello)
{
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        struct sched_stream *s = &sched->streams[i];
        if (s->fixed && s->bucket_count == 0) {
            s->bucket_count = INDEX_BUCKETS;
            memcpy(s->buckets, hello->streams[i].buckets, sizeof(s->buckets));
        }
    }
}

/* How a data set that a producer has differs from the stream's. */
static void data_refuse(const struct sched *sched, uint32_t stream, uint64_t samples,
                        uint64_t digest, struct msg_reject *out)
{
    const struct sched_stream *s = &sched->streams[stream];
    out->code = REJECT_DATA;
    out->stream = stream;
    out->bucket_count = s->bucket_count;
    memcpy(out->buckets, s->buckets, sizeof(out->buckets));
    (void)snprintf(out->text, sizeof(out->text),
                   "stream %s: a data set of %" PRIu64 " samples with digest %016" PRIx64
                   ", but the job's has %" PRIu64 " with %016" PRIx64,
                   sched->options.streams[stream].name, samples, digest, s->data.samples,
                   s->data.digest);
}

static uint64_t batch_bytes_max(const struct sched *sched)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        const uint64_t bytes = sched->options.streams[i].layout->bytes;
        max = bytes > max ? bytes : max;
    }
    return max;
}

/* Is something wrong with a HELLO by itself? Then *out says what. */
static bool hello_wrong(const struct sched *sched, const struct msg_hello *hello,
                        struct msg_reject *out)
{
    if (hello->job != sched->options.job && !sched_lacks(sched, SCHED_MUTANT_ANY_JOB)) {
        out->code = REJECT_JOB;
        (void)snprintf(out->text, sizeof(out->text),
                       "job %016" PRIx64 ", but this is job %016" PRIx64, hello->job,
                       sched->options.job);
        return true;
    }
    if (hello->fingerprint != sched->options.fingerprint &&
        !sched_lacks(sched, SCHED_MUTANT_ANY_FINGERPRINT)) {
        out->code = REJECT_FINGERPRINT;
        (void)snprintf(out->text, sizeof(out->text),
                       "decode fingerprint %016" PRIx64 ", but the job's is %016" PRIx64
                       ": other versions of the program or its picture libraries",
                       hello->fingerprint, sched->options.fingerprint);
        return true;
    }
    if (hello->stream_count != sched->options.stream_count) {
        out->code = REJECT_DATA;
        (void)snprintf(out->text, sizeof(out->text), "%u streams, but the job has %u",
                       hello->stream_count, sched->options.stream_count);
        return true;
    }
    const uint32_t differs = data_differs(sched, hello);
    if (differs != NONE && !sched_lacks(sched, SCHED_MUTANT_ANY_DATA)) {
        data_refuse(sched, differs, hello->streams[differs].samples, hello->streams[differs].digest,
                    out);
        return true;
    }
    if (hello->capacity_bytes < batch_bytes_max(sched)) {
        out->code = REJECT_FULL;
        (void)snprintf(out->text, sizeof(out->text),
                       "room for %" PRIu64 " bytes, but one batch has %" PRIu64,
                       hello->capacity_bytes, batch_bytes_max(sched));
        return true;
    }
    return false;
}

/* reject: its code and text, and what belongs to the code. */
static void hello_reject(struct sched *sched, const struct sched_hello *hello,
                         struct msg_reject *reject)
{
    reject->instance = hello->msg->instance;
    reject->attempt = hello->msg->attempt;
    sched_say_reject(sched, hello->peer, reject);
    if (!sched_say_refused_before(sched, hello->peer, reject->code)) {
        sched_say_text(sched, SCHED_LOG, NULL, "%s/%u: turned away: %s", hello->msg->host,
                       hello->msg->index, reject->text);
    }
}

static const char *address_text(const char *address)
{
    return address[0] != '\0' ? address : "an unknown address";
}

static void session_begin(struct sched *sched, struct sched_session *session,
                          struct sched_producer *producer, const struct sched_hello *caller)
{
    const struct msg_hello *hello = caller->msg;
    const uint64_t left =
        sched_lacks(sched, SCHED_MUTANT_END_NO_CREDIT) ? session->in_flight_bytes : 0;
    const uint64_t cap = sched->options.session_bytes_max;
    const int64_t now_ns = sched->now_ns;
    *session = (struct sched_session){
        .id = caller->fresh,
        .peer = caller->peer,
        .producer = (uint32_t)(producer - sched->producers),
        .say = SAY_WELCOME | (sched_session_is_done(sched) ? SAY_DONE : 0),
        .bytes_max = hello->capacity_bytes < cap ? hello->capacity_bytes : cap,
        .in_flight_bytes = left,
        .heard_ns = now_ns,
        .progress_ns = now_ns,
        .settled_ns = now_ns,
        .ping_ns = now_ns + sched->options.ping_interval_ns,
    };
    (void)snprintf(session->address, sizeof(session->address), "%s", caller->address);
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        session->said[i].samples = hello->streams[i].samples;
        session->said[i].digest = hello->streams[i].digest;
    }
    sched->ids[index_of(sched, session)] = session->id;
    producer->instance = hello->instance;
    producer->attempt = hello->attempt;
    producer->session_id = session->id;
    producer->session = index_of(sched, session);
    if (sched_lacks(sched, SCHED_MUTANT_FAILURES_FORGOTTEN)) {
        sched_lease_forgive(producer);
    }
    sched->stats.sessions_begun++;
    sched_say_text(sched, SCHED_SESSION_BEGAN, session,
                   "%s/%u: session began (instance %016" PRIx64 " at %s, attempt %u, %" PRIu64
                   " bytes in flight at most)",
                   producer->host, producer->index, hello->instance, address_text(session->address),
                   hello->attempt, session->bytes_max);
}

/* The answer to this very attempt was given already: it is given again. Also on another connection,
 * though the session belongs to the first one: perhaps this HELLO is an old one that was read late,
 * and the session is well; if not, the first PING will bring it out. */
static bool hello_repeated(struct sched *sched, const struct sched_producer *producer,
                           uint64_t peer, const struct msg_hello *hello)
{
    if (producer->session_id == 0 || producer->instance != hello->instance ||
        producer->attempt != hello->attempt || sched_lacks(sched, SCHED_MUTANT_REPEAT_IS_NEW)) {
        return false;
    }
    if (sched_lacks(sched, SCHED_MUTANT_REPEAT_UNANSWERED)) {
        return true;
    }
    if (producer->session == NONE || sched->sessions[producer->session].peer != peer) {
        const struct msg_welcome welcome = {.credit_bytes = sched->options.session_bytes_max,
                                            .attempt = hello->attempt};
        sched_say_welcome(sched, peer, producer->session_id, &welcome);
        return true;
    }
    struct sched_session *session = &sched->sessions[producer->session];
    session->heard_ns = sched->now_ns;
    session->say |= SAY_WELCOME;
    return true;
}

/* Makes way for a new session of this producer. False: the old one goes on. */
static bool hello_replaces(struct sched *sched, const struct sched_producer *producer,
                           const struct sched_hello *hello)
{
    if (producer->session == NONE) {
        return true;
    }
    struct sched_session *old = &sched->sessions[producer->session];
    if (producer->instance != hello->msg->instance &&
        !sched_lacks(sched, SCHED_MUTANT_INSTANCE_TAKES_OVER)) {
        struct msg_reject reject = {.code = REJECT_DUPLICATE};
        (void)snprintf(reject.text, sizeof(reject.text),
                       "another instance, %016" PRIx64 " at %s, was heard %" PRId64
                       " ms ago for this host and index; this one is %016" PRIx64 " at %s",
                       producer->instance, address_text(old->address),
                       (sched->now_ns - old->heard_ns) / 1000000, hello->msg->instance,
                       address_text(hello->address));
        hello_reject(sched, hello, &reject);
        return false;
    }
    if (sched_lacks(sched, SCHED_MUTANT_ATTEMPT_WAITS)) {
        old->heard_ns = sched->now_ns;
        return false;
    }
    sched_session_end(sched, old, true, "its producer has begun anew");
    return true;
}

/* An old HELLO of this instance that was read late, from the connection before. */
static bool hello_is_stale(const struct sched *sched, const struct sched_producer *producer,
                           const struct msg_hello *hello)
{
    return producer->instance == hello->instance &&
           (int32_t)(hello->attempt - producer->attempt) < 0 &&
           !sched_lacks(sched, SCHED_MUTANT_STALE_HELLO);
}

void sched_on_hello(struct sched *sched, const struct sched_hello *hello, int64_t now_ns)
{
    CHECK(hello->fresh != 0);
    sched->now_ns = now_ns;
    struct msg_reject reject = {0};
    if (hello_wrong(sched, hello->msg, &reject)) {
        hello_reject(sched, hello, &reject);
        return;
    }
    data_learn_buckets(sched, hello->msg);
    struct sched_producer *producer = producer_get(sched, hello->msg);
    if (producer != NULL && (hello_is_stale(sched, producer, hello->msg) ||
                             hello_repeated(sched, producer, hello->peer, hello->msg) ||
                             !hello_replaces(sched, producer, hello))) {
        return;
    }
    struct sched_session *session = session_get(sched);
    if (producer == NULL || session == NULL) {
        reject = (struct msg_reject){.code = REJECT_FULL, .text = "no room for another session"};
        hello_reject(sched, hello, &reject);
        return;
    }
    session_begin(sched, session, producer, hello);
}

void sched_session_check_data(struct sched *sched, struct sched_session *session, uint32_t stream)
{
    const struct sched_data_set *data = &sched->streams[stream].data;
    if (session->said[stream].samples == data->samples &&
        session->said[stream].digest == data->digest) {
        return;
    }
    struct msg_reject reject = {.refused = session->id};
    data_refuse(sched, stream, session->said[stream].samples, session->said[stream].digest,
                &reject);
    sched_say_reject(sched, session->peer, &reject);
    sched_session_end(sched, session, false, reject.text);
}

/* A message of a session that this connection does not have. */
static void on_stranger(struct sched *sched, uint64_t peer, const struct msg *msg)
{
    if (msg->type != MSG_PING || sched_lacks(sched, SCHED_MUTANT_NO_REJECT)) {
        return;
    }
    struct msg_reject reject = {
        .refused = msg->session,
        .code = REJECT_UNKNOWN_SESSION,
        .text = "unknown session: say HELLO",
    };
    if (sched_lacks(sched, SCHED_MUTANT_REJECT_UNNAMED)) {
        reject.refused = 0;
    }
    sched_say_reject(sched, peer, &reject);
}

static void on_pong(struct sched *sched, struct sched_session *session, const struct msg_ping *pong)
{
    session->oldest_age_ns = pong->oldest_age_ns;
    if (pong->samples_done <= session->samples_done) {
        return;
    }
    session->samples_done = pong->samples_done;
    if (sched_lacks(sched, SCHED_MUTANT_SAMPLES_NO_PROGRESS)) {
        return;
    }
    session->progress_ns = sched->now_ns;
    if (session->leases_live > 0) {
        sched->progress_ns = sched->now_ns;
    }
}

static void on_return(struct sched *sched, struct sched_session *session, uint32_t number)
{
    struct sched_lease *lease = sched_lease_find(sched, session, number);
    if (lease == NULL) {
        return;
    }
    sched->stats.returns++;
    if (lease->live) {
        sched_session_pause(sched, session);
    }
    const uint64_t in_flight_bytes = session->in_flight_bytes;
    sched_lease_settle(sched, session, lease);
    if (sched_lacks(sched, SCHED_MUTANT_RETURN_NO_CREDIT)) {
        session->in_flight_bytes = in_flight_bytes;
    }
}

/* A control message of a live session. */
static void on_control(struct sched *sched, struct sched_session *session, const struct msg *msg)
{
    session->heard_ns = sched->now_ns;
    switch (msg->type) {
    case MSG_PING:
        session->pong_seq = msg->ping.seq;
        session->say |= SAY_PONG;
        return;
    case MSG_PONG:
        on_pong(sched, session, &msg->ping);
        return;
    case MSG_NACK:
        sched_lease_nack(sched, session, &msg->nack);
        return;
    case MSG_RETURN:
        on_return(sched, session, msg->lease.lease);
        return;
    case MSG_LEAVE:
        session->leaving = true;
        return;
    case MSG_BYE:
        sched_session_end(sched, session, false, "it said BYE");
        return;
    default:
        sched_session_end(sched, session, true, "it sent what only a rank may send");
        return;
    }
}

void sched_on_message(struct sched *sched, uint64_t peer, const struct msg *msg, int64_t now_ns)
{
    CHECK(msg->type != MSG_HELLO);
    sched->now_ns = now_ns;
    struct sched_session *session = sched_session_find(sched, peer, msg->session);
    if (session == NULL) {
        on_stranger(sched, peer, msg);
        return;
    }
    on_control(sched, session, msg);
}

bool sched_session_tick(struct sched *sched, struct sched_session *session)
{
    const struct sched_options *options = &sched->options;
    if (sched->now_ns - session->heard_ns >= options->peer_timeout_ns) {
        sched_session_end(sched, session, true, "silence");
        return false;
    }
    if (sched->now_ns >= session->ping_ns) {
        session->ping_ns = sched->now_ns + options->ping_interval_ns;
        session->say |= sched_session_is_done(sched) ? SAY_PING | SAY_DONE : SAY_PING;
        if (sched_lacks(sched, SCHED_MUTANT_NO_PING)) {
            session->say &= (uint8_t)~SAY_PING;
        }
    }
    return true;
}

/* The next CANCEL that is due, or false. */
static bool say_cancel(struct sched *sched, struct sched_session *session, struct msg *out)
{
    struct sched_lease *leases =
        &sched->leases[(size_t)index_of(sched, session) * sched->leases_max];
    for (uint32_t i = 0; i < sched->leases_max; i++) {
        if (leases[i].number != 0 && leases[i].cancel_due) {
            leases[i].cancel_due = false;
            out->type = MSG_CANCEL;
            out->lease.lease = leases[i].number;
            return true;
        }
    }
    session->say &= (uint8_t)~SAY_CANCEL;
    return false;
}

bool sched_session_say(struct sched *sched, struct sched_session *session, struct msg *out)
{
    out->session = session->id;
    if (session->say & SAY_WELCOME) {
        session->say &= (uint8_t)~SAY_WELCOME;
        session->welcomes++;
        out->type = MSG_WELCOME;
        out->welcome.credit_bytes = session->bytes_max;
        out->welcome.attempt = sched->producers[session->producer].attempt;
        return true;
    }
    if ((session->say & SAY_CANCEL) && say_cancel(sched, session, out)) {
        return true;
    }
    if (session->say & SAY_PONG) {
        session->say &= (uint8_t)~SAY_PONG;
        out->type = MSG_PONG;
        out->ping = (struct msg_ping){.seq = session->pong_seq};
        return true;
    }
    if (session->say & SAY_PING) {
        session->say &= (uint8_t)~SAY_PING;
        out->type = MSG_PING;
        out->ping = (struct msg_ping){.seq = ++session->ping_seq};
        return true;
    }
    if (session->say & SAY_DONE) {
        session->say &= (uint8_t)~SAY_DONE;
        out->type = MSG_DONE;
        out->text.text[0] = '\0';
        return true;
    }
    return false;
}
