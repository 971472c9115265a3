/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grant protocol in small, for Spin: one rank, two producers, batches of one part, an account
 * of one part a session. Small enough that every order of events is tried; what is left out here
 * (ranges of parts, measured times, several streams, loops of crashes) is the simulator's business.
 *
 * Every process is a loop of atomic steps, so that Spin's weak fairness means "nobody is ignored for
 * ever". Timers are oracles: they may fire when the real ones would have cause to, or at any time
 * for one unit of fuel, as every fault does. After the last step nothing moves any more: a step that
 * is never consumed shows as an invalid end state or as a cycle.
 *
 * A connection is FIFO. When it is cut, the first messages on their way up can still be read from
 * the old pipe, at any time; the last ones had not left and go by the new connection; those between
 * are lost. The rank knows by which connection a message came; the producer notices nothing.
 *
 * NO_xxx takes a rule out; check.sh says what must then fail. FAULTS: bits 1 cut, 2 crash, 4 hang,
 * 8 corrupted part, 16 expiry without cause, 32 session end without cause, 64 the producer drops its
 * session, 128 HELLO said again, 256 the rank dies.
 */
#ifndef N
#define N 2                                /* steps */
#endif
#ifndef W
#define W 2                                /* slots */
#endif
#ifndef FUEL
#define FUEL 1
#endif
#ifndef FAULTS
#define FAULTS 511
#endif
#ifndef VICTIM
#define VICTIM 0                           /* the producer that faults meet */
#endif
#define JUNK  9
#define RUN   (base < N)
#define MAY(kind) (fuel && (FAULTS & kind))
#ifdef HUNG                                /* producer 1 hangs for ever, but answers */
#define FOREVER(p) ((p) == 1)
#else
#define FOREVER(p) false
#endif

mtype = { HELLO, WELCOME, REJECT, GRANT, DATA, RETURN, CANCEL, PING };
/* type, session (HELLO: instance), step (HELLO, WELCOME: attempt), corrupted */
chan up[2]   = [4] of { mtype, byte, byte, bit };
chan old[2]  = [4] of { mtype, byte, byte, bit };
chan down[2] = [4] of { mtype, byte, byte, bit };

/* The rank. A session's lease: step + 1 while it weighs on the account; live: it counts for the
 * step. from: 0 the producer's present connection, 1 the one before, 2 none that is left. */
byte base, ckpt, val[W], sess[2], from[2], lease[2], last;
bit got[W], live[2];
byte hi[2], ha[2], hs[2];                  /* the last HELLO that began a session, and which */
/* The producers. back: a cancelled lease that is still to be given back. */
byte psess[2], inst[2], att[2], task[2];
bit back[2], hung[2];
/* Ghosts: parts of the present session that exist; parts held and in pipes; old pipes so far. */
byte real[2], mem[2], fuel = FUEL, used;
bit stale[2];
hidden byte i, n, u;

#define IN(c, t, s)  c[p]??[t, eval(s), _, _]
#ifdef NO_REPLACE                          /* what a HELLO does not replace, it keeps alive */
#define UNHEARD(p)   (psess[p] != sess[p] && !IN(down, WELCOME, sess[p]) && inst[p] != hi[p])
#else
#define UNHEARD(p)   (psess[p] != sess[p] && !IN(down, WELCOME, sess[p]))
#endif
#define LOST(p)      (lease[p] && !real[p])
#define CAUSE(p)     (hung[p] || UNHEARD(p) || LOST(p) || from[p])
#ifdef NO_BIND                             /* a session belongs to one connection */
#define MINE(p, c)   (s && s == sess[p])
#define SILENT(p)    UNHEARD(p)
#elif defined(NO_DEADCHECK)                /* nothing of an ended session changes anything */
#define MINE(p, c)   (sess[p] && from[p] == c && (s == sess[p] || t == DATA))
#else
#define MINE(p, c)   (s && s == sess[p] && from[p] == c)
#endif
#ifndef SILENT
#define SILENT(p)    (UNHEARD(p) || from[p])
#endif
#ifdef NO_SECONDACCOUNT                    /* the budget counts two accounts a producer */
#define PIPES(p)     1
#else
#define PIPES(p)     (1 + stale[p])
#endif
#define BOOKS(p)     assert(real[p] <= (lease[p] != 0) && mem[p] <= PIPES(p))

#ifdef NO_FREESLOT                         /* a step enters the window when its slot is free */
#define OPEN(st)   ((st) >= base && (st) < base + W + 1 && (st) < N)
#define DONE(st)   ((st) < base + W && got[(st) % W])
#else
#define OPEN(st)   ((st) >= base && (st) < base + W && (st) < N)
#define DONE(st)   got[(st) % W]
#endif

inline settle(p) { lease[p] = 0; live[p] = 0 }
inline end_session(p) {
  sess[p] = 0; from[p] = 0; real[p] = 0;
#ifndef NO_ENDCREDIT                       /* the account goes with its session */
  settle(p)
#else
  live[p] = 0
#endif
}
inline gone(p) {                           /* the message t, s is no more */
  if :: t == DATA -> mem[p]-- :: else fi;
  if :: (t == DATA || t == GRANT || t == RETURN) && s && s == sess[p] -> real[p]-- :: else fi
}

/* ---- the rank ---- */
inline on_hello(p, c) {                    /* s: instance, x: attempt */
  n = 0;
  if
#ifndef NO_REPEAT                          /* an attempt gets one session; a repeat the same answer */
  :: hs[p] && hi[p] == s && ha[p] == x -> n = hs[p]
#endif
#ifndef NO_STALE                           /* an older attempt is dropped */
  :: hs[p] && hi[p] == s && x < ha[p] -> skip
#endif
  :: sess[p] && hi[p] != s -> skip         /* another instance is refused while the first is heard */
#ifdef NO_REPLACE                          /* a new attempt ends the old session at once */
  :: sess[p] && hi[p] == s -> skip
#endif
  :: else ->                               /* a sound session is never ended for it */
       assert(!(sess[p] && psess[p] == sess[p] && !from[p] && ha[p] >= x));
       end_session(p);
       last++; sess[p] = last; from[p] = c; hi[p] = s; ha[p] = x; hs[p] = last; n = last
  fi;
  if :: n && !c -> down[p]!WELCOME,n,x,0 :: else fi
}
inline on_data(p, c) {                     /* s: session, x: step, y: corrupted */
  gone(p);
  if
  :: MINE(p, c) && lease[p] == x + 1 ->
#ifdef NO_BADCREDIT                        /* a bad part is credited too */
     if :: y -> live[p] = 0 :: else -> settle(p) fi;
#else
     settle(p);                            /* credited, whatever becomes of it */
#endif
     if
#ifdef NO_OVERWRITECHECK                   /* a part is written only if its bit is clear */
     :: OPEN(x) ->
#else
     :: OPEN(x) && !got[x % W] ->
#endif
        val[x % W] = (y -> JUNK : x + 1);
#ifdef NO_BITLAST                          /* the bit is set after the checksum held */
        got[x % W] = 1
#else
        if :: !y -> got[x % W] = 1 :: else fi
#endif
     :: else
     fi
  :: else
  fi
}
inline receive(p, c) {
  if
  :: t == HELLO -> on_hello(p, c)
  :: t == DATA -> on_data(p, c)
  :: t == RETURN ->
       gone(p);
#ifndef NO_RETURNCREDIT
       if :: MINE(p, c) -> settle(p) :: else fi
#endif
  :: t == PING && !MINE(p, c) && !c ->
#ifndef NO_REJECT
       down[p]!REJECT,s,0,0
#else
       skip
#endif
  :: else
  fi;
  BOOKS(p); t = 0; s = 0; x = 0; y = 0
}
proctype Rank(byte p) {
  mtype t; byte s, x; bit y;
end: do
  :: d_step { RUN && nempty(up[p]) && nfull(down[p]) -> up[p]?t,s,x,y; receive(p, 0) }
  :: d_step { RUN && nempty(old[p]) -> old[p]?t,s,x,y; receive(p, 1) }
  od
}
proctype Timers(byte p) {
end: do
#ifndef NO_EXPIRY
  :: d_step { RUN && live[p] && nfull(down[p]) && (CAUSE(p) || (MAY(16) && p == VICTIM)) ->
       if :: CAUSE(p) -> skip :: else -> fuel-- fi;
       live[p] = 0;                        /* the step is free, the account is not */
       if :: !from[p] -> down[p]!CANCEL,sess[p],0,0 :: else fi;
#ifdef NO_ACCOUNT                          /* expiry does not credit */
       lease[p] = 0;
#endif
#ifdef NO_STEPSLOT                         /* the slot is the step's, not the session's */
       live[p] = (lease[p] != 0);
#endif
       BOOKS(p) }
#endif
#ifndef NO_SILENCE
  :: d_step { RUN && sess[p] && SILENT(p) -> end_session(p) }
#endif
  :: d_step { RUN && sess[p] && MAY(32) && p == VICTIM -> fuel--; end_session(p) }
  od
}

#define HELD(st)   ((live[0] && lease[0] == (st) + 1) + (live[1] && lease[1] == (st) + 1))
#ifdef HEDGE
#define LEASES 2
#else
#define LEASES 1
#endif
#define FREE(p)    (sess[p] && !lease[p] && nfull(down[p]))
#define WANTS(st)  (OPEN(st) && !DONE(st) && HELD(st) < LEASES)
inline grant(p, st) {
  lease[p] = st + 1; live[p] = 1;
  if :: !from[p] -> real[p]++; down[p]!GRANT,sess[p],st,0 :: else fi;   /* or to nobody */
  BOOKS(p)
}
proctype Grants() {
end: do
  :: d_step { RUN && FREE(0) && WANTS(base) -> grant(0, base) }
  :: d_step { RUN && FREE(1) && WANTS(base) -> grant(1, base) }
  :: d_step { RUN && FREE(0) && !WANTS(base) && WANTS(base + 1) -> grant(0, base + 1) }
  :: d_step { RUN && FREE(1) && !WANTS(base) && WANTS(base + 1) -> grant(1, base + 1) }
#ifdef NO_FREESLOT
  :: d_step { RUN && FREE(0) && WANTS(base + W) -> grant(0, base + W) }
#endif
  od
}
proctype Trainer() {
end: do
  :: d_step { RUN && got[base % W] ->
       assert(val[base % W] == base + 1 && !(used & (1 << base)));      /* its good bytes, once */
       used = used | (1 << base); got[base % W] = 0; val[base % W] = 0; base++; ckpt = base }
  od
}

/* ---- the producers ---- */
inline drop(p) {                           /* the producer drops its session and all work */
  if :: task[p] -> mem[p]--; if :: psess[p] && psess[p] == sess[p] -> real[p]-- :: else fi :: else fi;
  if :: back[p] && psess[p] && psess[p] == sess[p] -> real[p]-- :: else fi;
#ifndef NO_NEWATTEMPT                      /* the attempt is new each time a session is dropped */
  if :: psess[p] -> att[p]++ :: else fi;
#endif
  task[p] = 0; back[p] = 0; psess[p] = 0
}
#define ASKED(p)   (IN(up, HELLO, inst[p]) || IN(down, WELCOME, hs[p]))
#ifdef NO_WELCOMEATTEMPT                   /* WELCOME names the attempt that it answers */
#define NEWS(p)    (s != psess[p])
#else
#define NEWS(p)    (s != psess[p] && x == att[p])
#endif
#define PINGED(p)  (IN(up, PING, psess[p]) || IN(down, REJECT, psess[p]))
proctype Producer(byte p) {
  mtype t; byte s, x; bit y, once;
end: do
  :: d_step { RUN && nempty(down[p]) -> down[p]?t,s,x,y;
       if
       :: t == WELCOME && NEWS(p) -> drop(p); psess[p] = s
       :: t == REJECT && s == psess[p] -> drop(p)
       :: t == GRANT && s == psess[p] ->
            assert(!task[p] && !back[p]);  /* never more than its account */
            task[p] = x + 1; mem[p]++
       :: t == GRANT && s != psess[p] -> gone(p)
       :: t == CANCEL && s == psess[p] && task[p] -> task[p] = 0; mem[p]--; back[p] = 1
       :: else
       fi;
       BOOKS(p); t = 0; s = 0; x = 0; y = 0 }
  :: d_step { RUN && task[p] && !hung[p] && nfull(up[p]) -> up[p]!DATA,psess[p],task[p]-1,0; task[p] = 0 }
  :: d_step { RUN && task[p] && !hung[p] && nfull(up[p]) && MAY(8) && p == VICTIM ->
       fuel--; up[p]!DATA,psess[p],task[p]-1,1; task[p] = 0 }
  :: d_step { RUN && back[p] && !hung[p] && nfull(up[p]) -> up[p]!RETURN,psess[p],0,0; back[p] = 0 }
#ifdef NO_HELLOAGAIN                       /* HELLO is repeated until it is answered */
  :: d_step { RUN && !psess[p] && !once && nfull(up[p]) -> once = 1; up[p]!HELLO,inst[p],att[p],0 }
#else
  :: d_step { RUN && !psess[p] && nfull(up[p]) && !ASKED(p) -> up[p]!HELLO,inst[p],att[p],0 }
#endif
  :: d_step { RUN && !psess[p] && nfull(up[p]) && MAY(128) && p == VICTIM ->
       fuel--; up[p]!HELLO,inst[p],att[p],0 }
  :: d_step { RUN && psess[p] && nfull(up[p]) && !PINGED(p) && (psess[p] != sess[p] || from[p]) ->
       up[p]!PING,psess[p],0,0 }           /* PINGs of a live session change nothing: left out */
  :: d_step { RUN && hung[p] && !FOREVER(p) -> hung[p] = 0 }
  od
}

/* ---- faults ---- */
/* The first a messages on their way up stay in the old pipe, the last b go by the new connection;
 * the first d on their way down arrive. */
inline cut(p, a, b, d) {
  n = len(up[p]); i = 0;
  do :: i < n -> up[p]?t,s,x,y;
          if :: i < a -> old[p]!t,s,x,y; stale[p] = 1
             :: i >= a && i >= n - b -> up[p]!t,s,x,y
             :: else -> gone(p) fi; i++
     :: else -> break od;
  n = len(down[p]); i = 0;
  do :: i < n -> down[p]?t,s,x,y; if :: i < d -> down[p]!t,s,x,y :: else -> gone(p) fi; i++
     :: else -> break od;
  if :: sess[p] && from[p] < 2 -> from[p]++ :: else fi
}
inline some(k, n) { k = 0; do :: k < n -> k++ :: break od }
#define V VICTIM
proctype Faults() {
  mtype t; byte s, x, a, b, d; bit y;
end: do
  :: atomic { RUN && MAY(1) && empty(old[V]) ->
       some(a, len(up[V])); some(b, len(up[V]) - a); some(d, len(down[V]));
       d_step { fuel--; cut(V, a, b, d); BOOKS(V); t = 0; s = 0; x = 0; y = 0; a = 0; b = 0; d = 0 } }
  :: atomic { RUN && MAY(2) && empty(old[V]) ->
       some(a, len(up[V]));
       d_step { fuel--; drop(V); inst[V]++; att[V] = 0; hung[V] = FOREVER(V); cut(V, a, 0, 0); BOOKS(V);
                t = 0; s = 0; x = 0; y = 0; a = 0 } }
  :: d_step { RUN && MAY(4) && !hung[V] -> fuel--; hung[V] = 1 }
  :: d_step { RUN && MAY(64) && psess[V] -> fuel--; drop(V); BOOKS(V) }
  :: d_step { RUN && MAY(256) ->             /* the rank dies; it goes on from its checkpoint */
       fuel--; u = 0;
       do :: u < 2 ->
               end_session(u); lease[u] = 0; hs[u] = 0; cut(u, 0, 0, 0);
               do :: nempty(old[u]) -> old[u]?t,s,x,y; gone(u) :: empty(old[u]) -> break od; u++
          :: else -> break od;
       base = ckpt; used = (1 << ckpt) - 1; u = 0;
       do :: u < W -> got[u] = 0; val[u] = 0; u++ :: else -> break od;
       t = 0; s = 0; x = 0; y = 0 }
  od
}

init { atomic {
  inst[0] = 1; inst[1] = 1;
#ifdef HUNG
  hung[1] = 1;
#endif
  run Rank(0); run Timers(0); run Producer(0);
#ifndef ALONE
  run Rank(1); run Timers(1); run Producer(1);
#endif
  run Grants(); run Trainer(); run Faults() }
  timeout -> assert(!RUN)                  /* when nothing can happen any more, all is consumed */
}
