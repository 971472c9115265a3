/* SPDX-License-Identifier: Apache-2.0 */
/* The linker's --wrap sends our calls here; __real_* are the C library's. */
#include "support/alloc_count.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic uint64_t count;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t items, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);

uint64_t alloc_count(void)
{
    return atomic_load(&count);
}

void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&count, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t items, size_t bytes)
{
    atomic_fetch_add(&count, 1);
    return __real_calloc(items, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&count, 1);
    return __real_realloc(memory, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    atomic_fetch_add(&count, 1);
    return __real_posix_memalign(out, align, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    atomic_fetch_add(&count, 1);
    return __real_aligned_alloc(align, bytes);
}
