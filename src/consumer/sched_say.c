/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler has to say besides the messages of its sessions: texts for people, answers to
 * connections that have no session, and the job's failure. Two rings of fixed size: of texts the
 * oldest are lost, answers that find no room are not given, since their HELLO or PING comes again.
 */
#include <stdarg.h>
#include <stdio.h>

#include "consumer/sched_internal.h"

void sched_say_text(struct sched *sched, enum sched_action_kind kind,
                    const struct sched_session *session, const char *format, ...)
{
    struct sched_text *text = &sched->texts[(sched->text_first + sched->text_count) % TEXTS_MAX];
    if (sched->text_count == TEXTS_MAX) {
        sched->text_first = (sched->text_first + 1) % TEXTS_MAX;
    } else {
        sched->text_count++;
    }
    text->kind = kind;
    text->peer = session != NULL ? session->peer : 0;
    text->session = session != NULL ? session->id : 0;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text->text, sizeof(text->text), format, args);
    va_end(args);
}

/* Room for an answer, or NULL: none left, or the same answer is there. */
static struct msg *answer_add(struct sched *sched, uint64_t peer, enum msg_type type)
{
    for (uint32_t i = 0; i < sched->answer_count; i++) {
        const struct sched_answer *a = &sched->answers[(sched->answer_first + i) % ANSWERS_MAX];
        if (a->peer == peer && a->msg.type == type) {
            return NULL;
        }
    }
    if (sched->answer_count == ANSWERS_MAX) {
        return NULL;
    }
    struct sched_answer *answer =
        &sched->answers[(sched->answer_first + sched->answer_count) % ANSWERS_MAX];
    sched->answer_count++;
    answer->peer = peer;
    answer->msg.type = type;
    return &answer->msg;
}

void sched_say_reject(struct sched *sched, uint64_t peer, const struct msg_reject *reject)
{
    struct msg *msg = answer_add(sched, peer, MSG_REJECT);
    if (msg == NULL) {
        return;
    }
    msg->session = reject->refused;
    msg->reject = *reject;
}

bool sched_say_refused_before(struct sched *sched, uint64_t peer, uint32_t code)
{
    for (uint32_t i = 0; i < REFUSALS_MAX; i++) {
        if (sched->refusals[i].peer == peer && sched->refusals[i].code == code) {
            return true;
        }
    }
    sched->refusals[sched->refusal_next].peer = peer;
    sched->refusals[sched->refusal_next].code = code;
    sched->refusal_next = (sched->refusal_next + 1) % REFUSALS_MAX;
    return false;
}

void sched_say_welcome(struct sched *sched, uint64_t peer, uint64_t session,
                       const struct msg_welcome *welcome)
{
    struct msg *msg = answer_add(sched, peer, MSG_WELCOME);
    if (msg == NULL) {
        return;
    }
    msg->session = session;
    msg->welcome = *welcome;
}

void sched_say_fail(struct sched *sched, enum status status, const char *format, ...)
{
    if (sched->failed != OK) {
        return;
    }
    sched->failed = status;
    sched->fail_due = true;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sched->fail_text, sizeof(sched->fail_text), format, args);
    va_end(args);
}

bool sched_say_next(struct sched *sched, struct sched_action *out)
{
    if (sched->text_count > 0) {
        const struct sched_text *text = &sched->texts[sched->text_first];
        sched->text_first = (sched->text_first + 1) % TEXTS_MAX;
        sched->text_count--;
        out->kind = text->kind;
        out->peer = text->peer;
        out->session = text->session;
        (void)snprintf(out->text, sizeof(out->text), "%s", text->text);
        return true;
    }
    if (sched->fail_due) {
        sched->fail_due = false;
        out->kind = SCHED_FAIL;
        out->status = sched->failed;
        (void)snprintf(out->text, sizeof(out->text), "%s", sched->fail_text);
        return true;
    }
    if (sched->answer_count > 0) {
        const struct sched_answer *answer = &sched->answers[sched->answer_first];
        sched->answer_first = (sched->answer_first + 1) % ANSWERS_MAX;
        sched->answer_count--;
        out->kind = SCHED_SEND;
        out->peer = answer->peer;
        out->session = answer->msg.session;
        out->msg = answer->msg;
        return true;
    }
    return false;
}
