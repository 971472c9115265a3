/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main function of a fuzz target where libFuzzer is not: feeds it every file of a corpus
 * folder, all truncations at a few places, and seeded mutations of each. Prints the seed; HR_SEED
 * sets it. An empty folder is a failure, since nothing would have been tested.
 *
 *   fuzz_NAME FOLDER
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "support/random.h"

enum {
    INPUT_BYTES_MAX = 1 << 20,
    MUTATIONS = 400,  /* per file */
    TRUNCATIONS = 64, /* per file */
};

/* The input in a block of exactly its size, so that a sanitizer sees any read past it. */
static void feed(const uint8_t *bytes, size_t count)
{
    uint8_t *exact = malloc(count == 0 ? 1 : count);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, bytes, count);
    LLVMFuzzerTestOneInput(exact, count);
    free(exact);
}

static void flip_bit(struct random_state *random, uint8_t *bytes, size_t count)
{
    bytes[random_u64(random) % count] ^= (uint8_t)(1U << random_u64(random) % 8);
}

static void set_byte(struct random_state *random, uint8_t *bytes, size_t count)
{
    static const uint8_t INTERESTING[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    const uint64_t choice = random_u64(random) % 8;
    bytes[random_u64(random) % count] =
        choice < sizeof(INTERESTING) ? INTERESTING[choice] : (uint8_t)random_u64(random);
}

static void move_block(struct random_state *random, uint8_t *bytes, size_t count)
{
    const size_t length = 1 + random_u64(random) % (count < 64 ? count : 64);
    const size_t from = random_u64(random) % (count - length + 1);
    const size_t to = random_u64(random) % (count - length + 1);
    memmove(bytes + to, bytes + from, length);
}

static void mutate(struct random_state *random, const uint8_t *input, size_t count,
                   uint8_t *scratch)
{
    static void (*const WAYS[])(struct random_state *, uint8_t *, size_t) = {flip_bit, set_byte,
                                                                             move_block};
    memcpy(scratch, input, count);
    for (uint64_t changes = 1 + random_u64(random) % 4; changes > 0; changes--) {
        WAYS[random_u64(random) % (sizeof(WAYS) / sizeof(WAYS[0]))](random, scratch, count);
    }
    const bool cut = random_u64(random) % 4 == 0;
    feed(scratch, cut ? random_u64(random) % count : count);
}

static void run_input(struct random_state *random, const uint8_t *input, size_t count,
                      uint8_t *scratch)
{
    feed(input, count);
    for (size_t i = 0; i < TRUNCATIONS && i < count; i++) {
        feed(input, count <= TRUNCATIONS ? i : random_u64(random) % count);
    }
    for (int i = 0; count > 0 && i < MUTATIONS; i++) {
        mutate(random, input, count, scratch);
    }
}

static size_t read_input(const char *folder, const char *name, uint8_t out[INPUT_BYTES_MAX])
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    const size_t count = fread(out, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    const int found = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    static uint8_t input[INPUT_BYTES_MAX], scratch[INPUT_BYTES_MAX];
    if (found < 0) {
        fprintf(stderr, "usage: %s FOLDER (of inputs)\n", argv[0]);
        return EXIT_FAILURE;
    }
    struct random_state random = {random_seed()};
    int run = 0;
    for (int i = 0; i < found; i++) {
        if (entries[i]->d_name[0] != '.') {
            run_input(&random, input, read_input(argv[1], entries[i]->d_name, input), scratch);
            run++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs of %s, each with %d mutations\n", run, argv[1], MUTATIONS);
    return run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
