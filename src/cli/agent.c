/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's loop. All its decisions are in this file: what a signal, an event of the coordinator,
 * the end of a child or a deadline does. How a child is started is in agent_process.c.
 */
#include "cli/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/agent_process.h"
#include "cli/failure.h"
#include "common/clock.h"
#include "common/crash_record.h"
#include "common/log.h"

enum {
    STOP_S = 60,          /* SageMaker kills 120 s after its SIGTERM */
    DONE_GRACE_MS = 6000, /* for producers to end by themselves; all is over within 10 s */
    FAIL_GRACE_MS = 1000, /* for children to end by themselves, with their own exit code */
    TERM_GRACE_MS = 2000, /* between SIGTERM and SIGKILL */
    SUSPECT_MS = 5000,    /* for the coordinator to answer a suspicion with the reason */
    CRASH_REPORT_MS = 5000,
    BACKOFF_MIN_MS = 100, /* before a producer is started again; doubles up to */
    BACKOFF_MAX_MS = 2000,
    HEALTHY_S = 10,         /* one that has lived so long begins at the minimum again */
    SERVER_GRACE_MS = 8000, /* for members to say BYE, and late hosts to hear the end; a host that
                               comes later waits for join_timeout, unless the platform ends it */
};

enum phase { PHASE_RUNNING, PHASE_STOPPING, PHASE_DONE, PHASE_FAILED };

struct agent {
    const struct agent_options *options;
    const struct config *config;
    const struct cluster_host *host;
    struct coord_server *server; /* NULL on all hosts but one */
    struct coord_client *client;
    int stop_fd;  /* signalfd: TERM, INT, HUP, QUIT */
    int child_fd; /* signalfd: CHLD */

    enum phase phase;
    int64_t deadline_ns; /* STOPPING: fail; DONE and FAILED: the next signal to the children */
    int next_signal;
    int exit_code;
    char reason[FAILURE_BYTES_MAX]; /* of FAILED */
    bool reason_is_ours;            /* heard from the coordinator, but of this host */

    int64_t suspect_ns; /* 0: nothing is suspected; else when to end without the coordinator */
    char suspicion[FAILURE_BYTES_MAX];

    bool stop_known; /* STOP_AT was heard */
    uint64_t stop_step;
    struct processes processes;
};

/* ---- ending ---- */

static void enter_failed(struct agent *agent, int code, const char *reason)
{
    agent->phase = PHASE_FAILED;
    agent->exit_code = code;
    snprintf(agent->reason, sizeof(agent->reason), "%s", reason);
    agent->deadline_ns = clock_now_ns() + FAIL_GRACE_MS * NS_PER_MS;
    agent->next_signal = SIGTERM;
    log_error("%s", reason);
}

/* This host's own failure: the job is told. */
static void fail(struct agent *agent, int code, const char *reason)
{
    if (agent->phase == PHASE_FAILED || agent->phase == PHASE_DONE) {
        return;
    }
    coord_fail(agent->client, reason);
    enter_failed(agent, code, reason);
}

/* ---- signals ---- */

static void on_stop_signal(struct agent *agent, int number)
{
    char text[128];
    if (agent->phase == PHASE_RUNNING) {
        log_info("%s: asking all ranks to stop at the same step", strsignal(number));
        coord_stop(agent->client);
        agent->phase = PHASE_STOPPING;
        agent->deadline_ns = clock_now_ns() + STOP_S * NS_PER_S;
        agent->next_signal = number;
        return;
    }
    snprintf(text, sizeof(text), "ended at once by a second signal (%s)", strsignal(number));
    processes_signal(&agent->processes, SIGKILL);
    fail(agent, EXIT_SIGNAL_BASE + number, text);
}

static void read_stop_signals(struct agent *agent)
{
    struct signalfd_siginfo info;
    while (read(agent->stop_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        on_stop_signal(agent, (int)info.ssi_signo);
    }
}

/* ---- children ---- */

/* "local rank 1 exited with code 65: headrace train: ..." */
static void describe_end(struct process *process, int wait_status, char *out, size_t bytes)
{
    char how[128];
    char words[FAILURE_BYTES_MAX / 2];
    child_describe(wait_status, how, sizeof(how));
    reason_take(process->reason_fd, words, sizeof(words));
    if (process->is_producer) {
        snprintf(out, bytes, "the producer %s%s%s", how, words[0] == '\0' ? "" : ": ", words);
    } else {
        snprintf(out, bytes, "local rank %u %s%s%s", process->local_rank, how,
                 words[0] == '\0' ? "" : ": ", words);
    }
}

/* A rank that was killed is a peer lost to all others, and so to its own host. */
static int failure_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_PEER : WEXITSTATUS(wait_status);
}

static void on_rank_end(struct agent *agent, struct process *process, int wait_status)
{
    char text[FAILURE_BYTES_MAX];
    if (wait_status == 0) {
        if (processes_ranks_ended_well(&agent->processes) && agent->phase != PHASE_FAILED) {
            coord_done(agent->client);
        }
        return;
    }
    const int code = failure_code(wait_status);
    describe_end(process, wait_status, text, sizeof(text));
    if (agent->phase == PHASE_FAILED) {
        if (agent->reason_is_ours && WIFEXITED(wait_status) && code != EXIT_PEER) {
            agent->exit_code = code; /* it had said so to the coordinator itself */
        }
        return;
    }
    if (WIFEXITED(wait_status) && code == EXIT_PEER) {
        /* Likely the consequence of a failure elsewhere, which is the better reason. */
        coord_suspect(agent->client, text);
        agent->suspect_ns = clock_now_ns() + SUSPECT_MS * NS_PER_MS;
        snprintf(agent->suspicion, sizeof(agent->suspicion), "%s", text);
        return;
    }
    fail(agent, code, text);
}

/* What another start would not change. */
static bool is_permanent(int wait_status)
{
    static const int CODES[] = {EXIT_USAGE, EXIT_DATA, EXIT_MISSING, EXIT_AUTH, EXIT_CONFIG};
    for (size_t i = 0; WIFEXITED(wait_status) && i < ARRAY_LEN(CODES); i++) {
        if (WEXITSTATUS(wait_status) == CODES[i]) {
            return true;
        }
    }
    return false;
}

/* The sample that the producer died of, if it died of one. Before the next start, so that a verdict
 * is there first. */
static void report_crash(struct agent *agent, const struct process *process, int wait_status)
{
    bool found = false;
    uint32_t stream;
    uint64_t sample;
    struct err err;
    if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) == SIGKILL) {
        return;
    }
    if (crash_record_read(process->crash_record, &found, &stream, &sample, &err) != OK) {
        log_warn("%s", err.message);
        return;
    }
    if (!found) {
        return;
    }
    log_warn("the producer died while decoding sample %" PRIu64 " of stream %u", sample, stream);
    if (coord_report_crash(agent->client, stream, sample,
                           clock_now_ns() + CRASH_REPORT_MS * NS_PER_MS, &err) != OK) {
        log_warn("%s", err.message);
    }
}

static void producer_failed(struct agent *agent, int code, const char *text)
{
    if (strcmp(agent->config->producer_failure, "fail") == 0) {
        fail(agent, code, text);
        return;
    }
    log_warn("%s; this host makes no more batches and waits for the end of the job "
             "(producer_failure)",
             text);
    coord_producer_failed(agent->client, code, text);
}

static void on_producer_end(struct agent *agent, struct process *process, int wait_status)
{
    char text[FAILURE_BYTES_MAX];
    if (wait_status == 0 || agent->phase == PHASE_DONE || agent->phase == PHASE_FAILED) {
        return;
    }
    report_crash(agent, process, wait_status);
    describe_end(process, wait_status, text, sizeof(text));
    if (is_permanent(wait_status) || process->restarts >= (uint32_t)agent->config->restarts) {
        producer_failed(agent, failure_code(wait_status), text);
        return;
    }
    const int64_t now_ns = clock_now_ns();
    if (now_ns - process->started_ns > HEALTHY_S * NS_PER_S || process->backoff_ms == 0) {
        process->backoff_ms = BACKOFF_MIN_MS;
    }
    const int64_t wait_ms = process->backoff_ms;
    process->backoff_ms = 2 * wait_ms < BACKOFF_MAX_MS ? 2 * wait_ms : BACKOFF_MAX_MS;
    process->restarts++;
    process->start_ns = now_ns + wait_ms * NS_PER_MS;
    log_warn("%s; start %u of %" PRId64 " again in %.1f s", text, process->restarts,
             agent->config->restarts, (double)wait_ms / 1000);
}

static void reap(struct agent *agent)
{
    struct signalfd_siginfo info;
    int wait_status;
    pid_t pid;
    while (read(agent->child_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
    }
    /* As PID 1 and as a subreaper also those whom others left behind. */
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        struct process *process = processes_find(&agent->processes, pid);
        if (process == NULL) {
            continue;
        }
        child_end_group(pid);
        process->pid = 0;
        process->ended_well = wait_status == 0;
        if (process->is_producer) {
            on_producer_end(agent, process, wait_status);
        } else {
            on_rank_end(agent, process, wait_status);
        }
    }
}

/* ---- the coordinator's events ---- */

static void on_fail_event(struct agent *agent, const struct coord_event *event)
{
    if (agent->phase == PHASE_FAILED || agent->phase == PHASE_DONE) {
        return; /* our own, come back, or too late */
    }
    char reason[FAILURE_BYTES_MAX];
    const size_t length = strlen(agent->host->name);
    agent->reason_is_ours =
        strncmp(event->text, agent->host->name, length) == 0 && event->text[length] == ':';
    snprintf(reason, sizeof(reason), "the job failed: %s", event->text);
    enter_failed(agent, event->code == 0 ? EXIT_PEER : event->code, reason);
}

static void on_event(struct agent *agent, const struct coord_event *event)
{
    switch (event->kind) {
    case COORD_EVENT_FAIL:
    case COORD_EVENT_LOST:
        on_fail_event(agent, event);
        break;
    case COORD_EVENT_STOP_AT:
        agent->stop_known = true;
        agent->stop_step = event->step;
        log_info("all ranks stop after step %" PRIu64, event->step);
        break;
    case COORD_EVENT_DONE:
        if (agent->phase != PHASE_FAILED) {
            agent->phase = PHASE_DONE;
            agent->deadline_ns = clock_now_ns() + DONE_GRACE_MS * NS_PER_MS;
            agent->next_signal = SIGTERM;
        }
        break;
    case COORD_EVENT_VERDICT:
        log_warn("sample %" PRIu64 " of stream %u has killed a decoder twice: it is bad",
                 event->sample, event->stream);
        break;
    }
}

/* ---- time ---- */

static void on_deadline(struct agent *agent)
{
    char text[128];
    if (agent->phase == PHASE_STOPPING) {
        snprintf(text, sizeof(text), "the job did not stop within %d s of %s", STOP_S,
                 strsignal(agent->next_signal));
        fail(agent, EXIT_SIGNAL_BASE + agent->next_signal, text);
        return;
    }
    processes_signal(&agent->processes, agent->next_signal);
    agent->next_signal = SIGKILL;
    agent->deadline_ns = clock_now_ns() + TERM_GRACE_MS * NS_PER_MS;
}

static void start_due(struct agent *agent, int64_t now_ns)
{
    for (uint32_t i = 0; i < agent->processes.count; i++) {
        struct process *process = &agent->processes.list[i];
        struct err err;
        if (process->start_ns == 0 || now_ns < process->start_ns) {
            continue;
        }
        process->start_ns = 0;
        if (agent->phase == PHASE_DONE || agent->phase == PHASE_FAILED) {
            continue;
        }
        if (process_start(process, &err) != OK) {
            fail(agent, status_exit_code(err.status), err.message);
        }
    }
}

static void check_time(struct agent *agent)
{
    const int64_t now_ns = clock_now_ns();
    start_due(agent, now_ns);
    if (agent->suspect_ns != 0 && now_ns >= agent->suspect_ns) {
        agent->suspect_ns = 0;
        fail(agent, EXIT_PEER, agent->suspicion);
    }
    if (agent->phase != PHASE_RUNNING && now_ns >= agent->deadline_ns) {
        on_deadline(agent);
    }
}

static int timeout_ms(const struct agent *agent)
{
    int64_t next_ns = INT64_MAX;
    if (agent->phase != PHASE_RUNNING) {
        next_ns = agent->deadline_ns;
    }
    if (agent->suspect_ns != 0 && agent->suspect_ns < next_ns) {
        next_ns = agent->suspect_ns;
    }
    for (uint32_t i = 0; i < agent->processes.count; i++) {
        const int64_t start_ns = agent->processes.list[i].start_ns;
        if (start_ns != 0 && start_ns < next_ns) {
            next_ns = start_ns;
        }
    }
    if (next_ns == INT64_MAX) {
        return -1;
    }
    const int64_t left_ms = (next_ns - clock_now_ns()) / NS_PER_MS + 1;
    return left_ms < 0 ? 0 : (int)left_ms;
}

/* ---- the loop ---- */

static bool is_over(const struct agent *agent)
{
    return (agent->phase == PHASE_DONE || agent->phase == PHASE_FAILED) &&
           processes_running(&agent->processes) == 0;
}

static void loop(struct agent *agent)
{
    struct pollfd fds[3] = {{.fd = agent->stop_fd, .events = POLLIN},
                            {.fd = agent->child_fd, .events = POLLIN},
                            {.fd = coord_event_fd(agent->client), .events = POLLIN}};
    while (!is_over(agent)) {
        poll(fds, 3, timeout_ms(agent));
        struct coord_event event;
        /* Events first: a FAIL that is there already explains why a child ended. */
        while (coord_next_event(agent->client, &event) == OK) {
            on_event(agent, &event);
        }
        read_stop_signals(agent);
        reap(agent);
        check_time(agent);
    }
}

/* ---- start and end ---- */

static enum status open_signals(struct agent *agent, struct err *err)
{
    static const int STOPS[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t stops;
    sigset_t children;
    sigemptyset(&stops);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    for (size_t i = 0; i < ARRAY_LEN(STOPS); i++) {
        sigaddset(&stops, STOPS[i]);
    }
    /* PID 1 has no default actions; for everybody else these replace them. */
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    sigprocmask(SIG_BLOCK, &children, NULL);
    agent->stop_fd = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
    agent->child_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (agent->stop_fd < 0 || agent->child_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "signalfd");
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a rank leaves behind is ours to end */
    return OK;
}

static enum status join_job(struct agent *agent, struct err *err)
{
    struct member *member = agent->options->member;
    const int64_t deadline_ns =
        clock_now_ns() + (int64_t)(agent->config->join_timeout_s * (double)NS_PER_S);
    TRY(member_resolve(member, &agent->stop_fd, deadline_ns, err));
    if (cluster_coordinator(&member->cluster) == agent->host) {
        const struct coord_server_options options = {
            .address = member->address, .config = &member->config, .cluster = &member->cluster};
        TRY(coord_server_start(&options, &agent->server, err));
    }
    const struct coord_join join = {.kind = COORD_AGENT,
                                    .local_ranks = agent->processes.rank_count,
                                    .cancel_fd = &agent->stop_fd};
    return member_join(member, &join, deadline_ns, &agent->client, err);
}

/* Before anybody else could know of this host; nothing of it runs yet. */
static int end_early(const struct agent *agent, const struct err *err)
{
    if (err->status == ERR_CANCELLED) {
        log_info("stopped before the job began");
        return EXIT_OK;
    }
    log_error("%s", err->message);
    char text[FAILURE_BYTES_MAX];
    snprintf(text, sizeof(text), "%s: %s", agent->host->name, err->message);
    failure_write(agent->options->member->cluster.base, text);
    return status_exit_code(err->status);
}

static int end_job(const struct agent *agent)
{
    if (agent->phase == PHASE_FAILED) {
        char text[FAILURE_BYTES_MAX];
        snprintf(text, sizeof(text), "%s: %s (exit code %d)", agent->host->name, agent->reason,
                 agent->exit_code);
        failure_write(agent->options->member->cluster.base, text);
        return agent->exit_code;
    }
    if (agent->stop_known) {
        log_info("stopped after step %" PRIu64, agent->stop_step);
    } else {
        log_info("done");
    }
    return EXIT_OK;
}

static void close_agent(struct agent *agent)
{
    processes_fini(&agent->processes);
    coord_close(&agent->client);
    coord_server_stop(&agent->server, clock_now_ns() + SERVER_GRACE_MS * NS_PER_MS);
    if (agent->stop_fd >= 0) {
        close(agent->stop_fd);
    }
    if (agent->child_fd >= 0) {
        close(agent->child_fd);
    }
}

int agent_run(const struct agent_options *options)
{
    struct err err;
    struct member *member = options->member;
    struct agent agent = {.options = options,
                          .config = &member->config,
                          .host = member->host,
                          .stop_fd = -1,
                          .child_fd = -1};
    int code;
    log_info("%s (%s), group %s", role_name(member->host->role), member->cluster.why,
             member->host->group);
    if (open_signals(&agent, &err) != OK ||
        processes_init(&agent.processes, member, options->argc, options->argv, &err) != OK ||
        join_job(&agent, &err) != OK) {
        code = end_early(&agent, &err);
    } else {
        loop(&agent);
        code = end_job(&agent);
    }
    close_agent(&agent);
    return code;
}
