/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's threads are fibres: stacks of their own, switched to and from by the launching thread
 * only. Fibres are made once and kept for later launches. On x86-64 a switch is a few instructions
 * of ours, for ucontext's makes a system call each time; elsewhere (and with
 * CUDA_SHIM_UCONTEXT) it is ucontext's. The sanitizers are told of every switch.
 */
#include "fakes/cuda_shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(CUDA_SHIM_UCONTEXT)
#define CUDA_SHIM_UCONTEXT
#endif
#ifdef CUDA_SHIM_UCONTEXT
#include <ucontext.h>
#endif

#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define START_SWITCH(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define FINISH_SWITCH(save, bottom_out, size_out) \
    __sanitizer_finish_switch_fiber(save, bottom_out, size_out)
#else
#define START_SWITCH(save, bottom, size)          ((void)(save))
#define FINISH_SWITCH(save, bottom_out, size_out) ((void)(save))
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define TSAN_FIBRE_NEW()       __tsan_create_fiber(0)
#define TSAN_FIBRE_FREE(fibre) __tsan_destroy_fiber(fibre)
#define TSAN_FIBRE_SELF()      __tsan_get_current_fiber()
#define TSAN_SWITCH(fibre)     __tsan_switch_to_fiber(fibre, 0)
#else
#define TSAN_FIBRE_NEW()       NULL
#define TSAN_FIBRE_FREE(fibre) ((void)(fibre))
#define TSAN_FIBRE_SELF()      NULL
#define TSAN_SWITCH(fibre)     ((void)(fibre))
#endif

/* The smallest limits of the cards that we build for (compute capability 7.0 and up). */
enum { THREADS_MAX = 1024, BLOCK_Z_MAX = 64, SHARED_BYTES_MAX = 48 * 1024 };
static const unsigned GRID_MAX[3] = {0x7fffffff, 65535, 65535};

enum { STACK_BYTES = 128 * 1024 };

struct place {
#ifdef CUDA_SHIM_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer;
#endif
    void *fake_stack; /* the address sanitizer's */
    void *tsan;
};

enum state { READY, AT_BARRIER, ENDED };

struct fibre {
    struct place place;
    char *stack; /* above a page that cannot be touched */
    enum state state;
    int line; /* of the barrier */
};

struct cuda_shim_thread cuda_shim_self;

static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
/* All below belongs to whoever holds the lock. */
static struct {
    struct fibre fibres[THREADS_MAX];
    unsigned made;
    struct fibre *running;
    struct place scheduler;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
    const struct cuda_shim_kernel *kernel;
    void *const *params;
    enum cuda_shim_order order;
    uint64_t random;
} shim = {.random = 1};

#ifdef CUDA_SHIM_UCONTEXT
static void place_switch(struct place *from, struct place *to)
{
    CHECK(swapcontext(&from->context, &to->context) == 0);
}

static void place_begin(struct place *place, char *stack, void (*entry)(void))
{
    CHECK(getcontext(&place->context) == 0);
    place->context.uc_stack.ss_sp = stack;
    place->context.uc_stack.ss_size = STACK_BYTES;
    place->context.uc_link = NULL;
    makecontext(&place->context, entry, 0);
}
#else
void cuda_shim_switch(void **from, void *to);
/* Keeps what a call must keep (System V ABI), and returns on the other stack. */
__asm__(".text\n"
        ".type cuda_shim_switch, @function\n"
        ".globl cuda_shim_switch\n"
        "cuda_shim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n"
        "    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n"
        "    popq %rbx\n    popq %rbp\n    ret\n"
        ".size cuda_shim_switch, . - cuda_shim_switch\n");

static void place_switch(struct place *from, struct place *to)
{
    cuda_shim_switch(&from->stack_pointer, to->stack_pointer);
}

static void place_begin(struct place *place, char *stack, void (*entry)(void))
{
    /* Six registers, the address to return to, and a word that aligns the stack as after a call. */
    uintptr_t *top = (uintptr_t *)(void *)(stack + STACK_BYTES) - 8;
    memset(top, 0, 8 * sizeof(*top));
    top[6] = (uintptr_t)entry;
    place->stack_pointer = top;
}
#endif

/* Returns when the fibre waits or has ended. */
static void resume(struct fibre *fibre)
{
    shim.running = fibre;
    START_SWITCH(&shim.scheduler.fake_stack, fibre->stack, STACK_BYTES);
    TSAN_SWITCH(fibre->place.tsan);
    place_switch(&shim.scheduler, &fibre->place);
    FINISH_SWITCH(shim.scheduler.fake_stack, NULL, NULL);
}

/* From the running fibre back to the scheduler; returns when it is resumed. */
static void suspend(enum state state)
{
    struct fibre *fibre = shim.running;
    fibre->state = state;
    START_SWITCH(&fibre->place.fake_stack, shim.scheduler_stack, shim.scheduler_stack_bytes);
    TSAN_SWITCH(shim.scheduler.tsan);
    place_switch(&fibre->place, &shim.scheduler);
    FINISH_SWITCH(fibre->place.fake_stack, &shim.scheduler_stack, &shim.scheduler_stack_bytes);
}

void cuda_shim_barrier(int line)
{
    shim.running->line = line;
    suspend(AT_BARRIER);
}

/* A fibre's life: one thread of a block after the other. */
static void fibre_main(void)
{
    FINISH_SWITCH(NULL, &shim.scheduler_stack, &shim.scheduler_stack_bytes);
    for (;;) {
        shim.kernel->run(shim.params);
        suspend(ENDED);
    }
}

static enum status fibres_need(unsigned count, struct err *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (; shim.made < count; shim.made++) {
        char *memory = mmap(NULL, page + STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
            return err_set(err, ERR_RESOURCE, "cuda_shim: no memory for %u stacks", count);
        }
        struct fibre *fibre = &shim.fibres[shim.made];
        *fibre = (struct fibre){.stack = memory + page};
        fibre->place.tsan = TSAN_FIBRE_NEW();
        place_begin(&fibre->place, fibre->stack, fibre_main);
    }
    return OK;
}

/* Fibres that wait for ever are of no more use. */
static void fibres_drop(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < shim.made; i++) {
        TSAN_FIBRE_FREE(shim.fibres[i].place.tsan);
        CHECK(munmap(shim.fibres[i].stack - page, page + STACK_BYTES) == 0);
    }
    shim.made = 0;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* An order of 0 .. count - 1: the i-th is (first + i * step) % count. */
struct walk {
    uint64_t first, step, count;
};

static struct walk walk_new(uint64_t count)
{
    switch (shim.order) {
    case CUDA_SHIM_BACKWARD:
        return (struct walk){count - 1, count - 1, count};
    case CUDA_SHIM_SHUFFLED: {
        shim.random = shim.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct walk walk = {(shim.random >> 33) % count, (shim.random >> 13) % count, count};
        while (greatest_divisor(walk.step, count) != 1) {
            walk.step++;
        }
        return walk;
    }
    default:
        return (struct walk){0, 1, count};
    }
}

static uint64_t walk_at(const struct walk *walk, uint64_t i)
{
    return (walk->first + i * walk->step) % walk->count;
}

static struct cuda_shim_dim dim_of(uint64_t index, struct cuda_shim_dim size)
{
    const uint64_t row = index / size.x;
    return (struct cuda_shim_dim){(unsigned)(index % size.x), (unsigned)(row % size.y),
                                  (unsigned)(row / size.y)};
}

/* After all threads have run as far as they can: the number that ended. */
static enum status block_look(unsigned threads, unsigned *ended_out, struct err *err)
{
    unsigned ended = 0;
    const struct fibre *waits = NULL;
    for (unsigned i = 0; i < threads; i++) {
        const struct fibre *fibre = &shim.fibres[i];
        if (fibre->state == ENDED) {
            ended++;
            continue;
        }
        if (waits != NULL && waits->line != fibre->line) {
            return err_set(err, ERR_DEVICE,
                           "%s: barriers differ: a thread waits in line %d, thread %u in line %d",
                           shim.kernel->name, waits->line, i, fibre->line);
        }
        waits = fibre;
    }
    if (waits != NULL && ended > 0) {
        return err_set(err, ERR_DEVICE,
                       "%s: barrier in line %d: %u of the block's %u threads have ended",
                       shim.kernel->name, waits->line, ended, threads);
    }
    *ended_out = ended;
    return OK;
}

static enum status block_run(unsigned threads, struct err *err)
{
    for (unsigned i = 0; i < threads; i++) {
        shim.fibres[i].state = READY;
    }
    unsigned ended = 0;
    while (ended < threads) {
        const struct walk walk = walk_new(threads);
        for (unsigned i = 0; i < threads; i++) {
            const uint64_t index = walk_at(&walk, i);
            cuda_shim_self.thread = dim_of(index, cuda_shim_self.block_size);
            resume(&shim.fibres[index]);
        }
        TRY(block_look(threads, &ended, err));
    }
    return OK;
}

static enum status check_sizes(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
                               struct err *err)
{
    for (int i = 0; i < 3; i++) {
        if (grid[i] < 1 || grid[i] > GRID_MAX[i] || block[i] < 1 || block[i] > THREADS_MAX) {
            return err_set(err, ERR_DEVICE, "%s: a grid of %ux%ux%u blocks of %ux%ux%u threads",
                           shim.kernel->name, grid[0], grid[1], grid[2], block[0], block[1],
                           block[2]);
        }
    }
    if ((uint64_t)block[0] * block[1] * block[2] > THREADS_MAX || block[2] > BLOCK_Z_MAX) {
        return err_set(err, ERR_DEVICE, "%s: %ux%ux%u threads in a block", shim.kernel->name,
                       block[0], block[1], block[2]);
    }
    if (shared_bytes > SHARED_BYTES_MAX) {
        return err_set(err, ERR_DEVICE, "%s: %zu bytes of shared memory", shim.kernel->name,
                       shared_bytes);
    }
    return OK;
}

static enum status blocks_run(const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
                              struct err *err)
{
    const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    const unsigned threads = block[0] * block[1] * block[2];
    cuda_shim_self.block_size = (struct cuda_shim_dim){block[0], block[1], block[2]};
    cuda_shim_self.grid_size = (struct cuda_shim_dim){grid[0], grid[1], grid[2]};
    const struct walk walk = walk_new(blocks);
    for (uint64_t i = 0; i < blocks; i++) {
        memset(cuda_shim_self.shared, 0xFF, shared_bytes);
        cuda_shim_self.block = dim_of(walk_at(&walk, i), cuda_shim_self.grid_size);
        const enum status status = block_run(threads, err);
        if (status != OK) {
            fibres_drop();
            return status;
        }
    }
    return OK;
}

static enum status launch_locked(const unsigned grid[3], const unsigned block[3],
                                 size_t shared_bytes, struct err *err)
{
    TRY(check_sizes(grid, block, shared_bytes, err));
    TRY(fibres_need(block[0] * block[1] * block[2], err));
    shim.scheduler.tsan = TSAN_FIBRE_SELF();
    cuda_shim_self.shared = malloc(shared_bytes);
    if (cuda_shim_self.shared == NULL && shared_bytes > 0) {
        return err_set(err, ERR_RESOURCE, "cuda_shim: no memory");
    }
    const enum status status = blocks_run(grid, block, shared_bytes, err);
    free(cuda_shim_self.shared);
    cuda_shim_self.shared = NULL;
    return status;
}

enum status cuda_shim_run(const struct cuda_shim_kernel *kernel, const unsigned grid[3],
                          const unsigned block[3], size_t shared_bytes, void *const *params,
                          struct err *err)
{
    CHECK(pthread_mutex_lock(&launch_lock) == 0);
    shim.kernel = kernel;
    shim.params = params;
    const enum status status = launch_locked(grid, block, shared_bytes, err);
    CHECK(pthread_mutex_unlock(&launch_lock) == 0);
    return status;
}

const struct cuda_shim_kernel *cuda_shim_find(const char *name)
{
    for (const struct cuda_shim_kernel *k = CUDA_SHIM_KERNELS; k->name != NULL; k++) {
        if (strcmp(k->name, name) == 0) {
            return k;
        }
    }
    return NULL;
}

enum status cuda_shim_launch(const char *name, const unsigned grid[3], const unsigned block[3],
                             size_t shared_bytes, void *const *params, struct err *err)
{
    const struct cuda_shim_kernel *kernel = cuda_shim_find(name);
    if (kernel == NULL) {
        return err_set(err, ERR_MISUSE, "cuda_shim: there is no kernel %s", name);
    }
    return cuda_shim_run(kernel, grid, block, shared_bytes, params, err);
}

void cuda_shim_set_order(enum cuda_shim_order order, uint64_t seed)
{
    CHECK(pthread_mutex_lock(&launch_lock) == 0);
    shim.order = order;
    shim.random = seed;
    CHECK(pthread_mutex_unlock(&launch_lock) == 0);
}
