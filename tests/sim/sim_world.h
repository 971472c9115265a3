/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a simulated world, shared by the simulator's files:
 *
 *   sim.c           the event loop, how a world has to end
 *   sim_draw.c      how a world is drawn from its seed
 *   sim_fault.c     what goes wrong
 *   sim_link.c      connections: two pipes each, delay, stalls, cuts
 *   sim_producer.c  producer processes
 *   sim_rank.c      the rank: what the client does with the scheduler, slots, the trainer
 *   sim_check.c     what must hold, from what an observer outside the scheduler can see
 */
#ifndef HEADRACE_TESTS_SIM_WORLD_H
#define HEADRACE_TESTS_SIM_WORLD_H

#include "consumer/sched_internal.h"
#include "sim/sim.h"
#include "support/random.h"

enum {
    PLACES_MAX = 5, /* hosts and indices */
    PROCS_MAX = 8,  /* processes: one a place, twins and strangers */
    CONNS_MAX = 64,
    PIPE_MAX = 64, /* packets on their way in one direction */
    PACKET_BYTES = 1024,
    TASKS_MAX = 32, /* leases that a process holds */
    SLOTS_MAX = 4,
    SIM_PARTS_MAX = 4,
    SIM_PART_BYTES = 16,
    STREAMS = 2,
    SESSIONS_EVER_MAX = 1 << 14,
    GHOST_LEASES_MAX = 512,
};

#define SIM_MS INT64_C(1000000)
#define SIM_S  INT64_C(1000000000)
#define NEVER  INT64_MAX

enum scenario { FAULTS, HUNG, LOOP, SLOW, SPEED, HEDGE, STARVE, REST };

struct packet {
    int64_t at_ns;
    uint64_t session;
    uint64_t weight; /* bytes of a session's account that exist only in this packet */
    enum msg_type type;
    uint64_t body; /* of DATA: the part's bytes */
    bool garbled;
    uint32_t count;
    uint8_t bytes[PACKET_BYTES];
};

struct pipe {
    uint32_t first, count;
    int64_t stalled_until_ns;
    int64_t last_ns; /* packets arrive in order */
    struct packet ring[PIPE_MAX];
};

struct conn {
    uint64_t peer; /* 0: free */
    uint32_t proc;
    bool cut;
    int64_t connected_ns;
    int64_t noticed_ns; /* when the rank's side sees the cut */
    bool hinted;
    int64_t disturbed_ns; /* last stall or late packet on the way down ended then */
    struct pipe up, down;
};

enum proc_kind { NORMAL, OTHER_JOB, OTHER_PRINT, OTHER_DATA };
enum loop_kind { LOOP_NONE, LOOP_RESET, LOOP_CRASH };

struct task {
    uint32_t lease, stream, due;
    uint64_t gstep;
    uint32_t mask; /* parts still to be sent */
    bool cancelled;
};

struct proc {
    bool used, alive, leaving, twin;
    enum proc_kind kind;
    enum loop_kind loop;
    uint32_t place;
    uint64_t instance;
    uint32_t attempt;
    uint64_t session, credit_bytes, capacity_bytes;
    uint32_t conn;
    int64_t start_ns, hello_ns, ping_ns, heard_ns, exit_ns, reindex_ns;
    int64_t frozen_until_ns, hung_until_ns;
    int64_t welcome_ns;
    int64_t busy_ns; /* it has been at work since */
    bool returns_while_hung, any_order, hello_sent;
    int64_t sample_ns;
    uint32_t samples_per_part;
    uint64_t samples_done;
    uint64_t mem_bytes; /* parts held, and DATA of this process in any pipe */
    uint32_t task_count;
    struct task tasks[TASKS_MAX];
    struct { /* the sample in work */
        bool active;
        uint32_t lease, part, samples_left;
        int64_t begun_ns, done_ns;
    } work;
    bool corrupt_next, garbage_next, nack_next;
};

/* What an observer knows of a session. */
struct ghost_session {
    bool live, leaving;
    bool tainted; /* its producer has dropped it */
    bool other_data;
    bool forgotten; /* its WELCOME was never sent */
    uint64_t id, peer;
    uint32_t proc, attempt;
    uint64_t instance;
    int64_t heard_ns, progress_ns;
    uint64_t samples_done;
    int64_t ended_ns;
    uint64_t real_bytes; /* granted, and not yet back: in pipes or held */
};

struct ghost_lease {
    bool live;
    uint64_t session;
    uint32_t number, stream, first_part, part_count;
    uint64_t gstep, bytes_left;
    int64_t granted_ns;
};

/* A stream at the rank, and what lies in its slots. */
struct sim_stream {
    struct layout layout;
    uint32_t slots;
    struct sched_data_set data;
    uint64_t base, end, announced;
    uint64_t value[SLOTS_MAX + 1][SIM_PARTS_MAX];
    bool good[SLOTS_MAX + 1][SIM_PARTS_MAX];
};

/* Where the trainer stands; a checkpoint is a copy. */
struct position {
    uint64_t train;  /* next step */
    bool evaluating; /* the eval stream is open */
    uint64_t eval;   /* next step of it */
    uint64_t evals;  /* evaluations done */
};

struct rank {
    bool up;
    int64_t up_ns; /* when it comes up, or came up last */
    void *memory;
    struct sched *sched;
    int64_t lag_ns; /* timers are late by so much */
    bool fixed, opened;
    int64_t fix_ns;
    struct position at, checkpoint;
    bool lent; /* the trainer works on a step */
    uint32_t lent_stream;
    uint64_t lent_gstep;
    int64_t trainer_ns; /* when it is done with it, or looks for the next */
    bool filling;       /* the trainer waits until all windows are full */
    bool finishing;
    bool failed_as_expected;
    uint32_t fail_sends; /* so many messages will find no room */
};

struct world {
    const struct sim_options *options;
    struct sim_counts *counts;
    struct random_state random;
    int64_t now_ns, quiet_ns, end_ns, fault_ns, fault_every_ns;
    uint32_t fault_kinds;
    enum scenario scenario;
    bool failed;
    char *text;
    int64_t latency_ns, jitter_ns;
    uint64_t job, print, key; /* key: of the bytes of this job's batches */
    uint32_t stream_count, place_count, step_checkpoint;
    uint64_t train_end, eval_steps;
    struct sched_options sched_options;
    char hosts[PLACES_MAX][16];
    uint32_t indices[PLACES_MAX];
    struct sim_stream streams[STREAMS];
    struct rank rank;
    uint64_t last_peer;
    uint32_t conn_count;
    struct conn *conns; /* CONNS_MAX */
    struct proc procs[PROCS_MAX];
    int64_t trainer_step_ns;
    bool twice_hello, calmed, hung_with_work;
    /* the observer */
    uint32_t session_count;
    uint32_t life_session_count;    /* before this life of the rank */
    struct ghost_session *sessions; /* SESSIONS_EVER_MAX */
    uint32_t ghost_lease_count;
    struct ghost_lease ghost_leases[GHOST_LEASES_MAX];
    int64_t progress_ns;
    uint64_t first_grants;
    bool sends_failed;
    struct {
        uint64_t peer;
        enum msg_type type;
        uint64_t session;
        bool garbage, bad_part, fixing, opening;
        uint32_t lease; /* of the bad part */
        uint64_t hello_instance;
        uint32_t hello_attempt;
        bool hello_other_data, place_taken;
        bool known; /* its session was live */
        bool welcomed, rejected, began, send_failed, peer_gone;
        uint64_t answer_session, unwelcomed_session;
    } event; /* what the rank is being told, and what came of it */
};

/* sim.c */
void sim_fail(struct world *w, const char *format, ...) PRINTF(2, 3);
void sim_trace(const struct world *w, const char *format, ...) PRINTF(2, 3);
uint64_t sim_below(struct world *w, uint64_t n); /* 0..n-1 */
bool sim_chance(struct world *w, uint32_t percent);
int64_t sim_between(struct world *w, int64_t min_ns, int64_t max_ns);
bool sim_lacks(const struct world *w, enum sim_mutant rule);
/* The bytes of a part, in a job of this key. */
uint64_t sim_part_value(uint64_t key, uint32_t stream, uint64_t gstep, uint32_t part);
uint64_t sim_range_bytes(const struct world *w, uint32_t stream, uint32_t first, uint32_t count);
int64_t sim_earlier(int64_t a_ns, int64_t b_ns);

/* sim_draw.c */
void draw_world(struct world *w);
void draw_proc(struct world *w, uint32_t proc, uint32_t place);
/* When the run must be over, from what is known now. */
void draw_limit(struct world *w);
/* No faults at random: the scenario is all that happens. */
bool draw_is_calm(enum scenario scenario);

/* sim_fault.c */
void fault_next(struct world *w);
/* The faults are over: what is held up goes on, the dead come back. */
void fault_calm(struct world *w);

/* sim_link.c */
uint32_t link_open(struct world *w, uint32_t proc, int64_t connected_ns);
struct conn *link_find(struct world *w, uint64_t peer);
/* False: no room. Weight and body as in struct packet. */
bool link_send_up(struct world *w, struct proc *proc, const struct msg *msg, uint64_t weight,
                  uint64_t body, bool garbage);
bool link_send_down(struct world *w, struct conn *conn, const struct msg *msg, uint64_t weight);
/* Cuts a process's connection; unless it is gone for good it connects again by itself. */
void link_cut(struct world *w, struct proc *proc, bool reconnects);
void link_stall(struct world *w, struct conn *conn, bool up, bool down, int64_t until_ns);
/* What is sent up from now on arrives no earlier. */
void link_hold_up(struct conn *conn, int64_t until_ns);
/* The rank dies: what is on the way is lost, but for what had not left the processes. */
void link_cut_all(struct world *w, int64_t back_ns);
int64_t link_next_ns(const struct world *w);
/* Delivers what is due now, one packet; false: nothing. */
bool link_deliver(struct world *w);
/* Old pipes of a process that still hold DATA. */
bool link_old_pipe(const struct world *w, uint32_t proc);

/* sim_producer.c */
void producer_start(struct world *w, uint32_t proc);
void producer_stop(struct world *w, uint32_t proc);
void producer_receive(struct world *w, uint32_t proc, const struct packet *packet,
                      const struct msg *msg);
void producer_drop(struct world *w, struct proc *p);
void producer_begin_anew(struct world *w, struct proc *p);
void producer_hello(struct world *w, struct proc *p);
int64_t producer_next_ns(const struct world *w, const struct proc *p);
void producer_tick(struct world *w, uint32_t proc);
void producer_leave(struct world *w, struct proc *p);
uint64_t producer_held_bytes(const struct world *w, const struct proc *p);

/* sim_rank.c */
void rank_start(struct world *w);
void rank_stop(struct world *w);
void rank_add_stats(struct world *w);
void rank_receive(struct world *w, const struct conn *conn, const struct packet *packet);
void rank_disconnected(struct world *w, uint64_t peer);
int64_t rank_next_ns(const struct world *w);
void rank_tick(struct world *w);
bool rank_is_done(const struct world *w);
void rank_reopen_eval(struct world *w);

/* sim_check.c */
struct ghost_session *check_session(struct world *w, uint64_t id);
/* A packet does not exist any more: it arrived, or was lost. */
void check_gone(struct world *w, uint32_t proc, const struct packet *packet);
void check_real(struct world *w, uint64_t session, int64_t bytes);
void check_event_begin(struct world *w);
void check_event_end(struct world *w);
void check_heard(struct world *w, uint64_t peer, const struct msg *msg);
bool check_part_wanted(struct world *w, uint64_t peer, const struct msg *msg);
void check_part_received(struct world *w, uint64_t peer, const struct msg *msg);
void check_lease_back(struct world *w, uint64_t peer, uint64_t session, uint32_t lease);
void check_began(struct world *w, const struct sched_action *action);
void check_ended(struct world *w, const struct sched_action *action);
void check_grant(struct world *w, const struct sched_action *action);
void check_granted(struct world *w, const struct sched_action *action);
uint64_t check_fresh(struct world *w);
void check_rank_died(struct world *w);
void check_cancel(struct world *w, const struct sched_action *action);
void check_answer(struct world *w, const struct sched_action *action);
void check_complete(struct world *w, const struct sched_action *action);
void check_fail(struct world *w, const struct sched_action *action);
void check_step_done(struct world *w, uint32_t stream, uint64_t gstep);
void check_stream_open(struct world *w, uint32_t stream);
void check_silence_drop(struct world *w, const struct proc *p);
void check_dead_session(struct world *w, const struct proc *p);
void check_reject_drop(struct world *w, const struct proc *p);
void check_books(struct world *w);

#endif
