/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of softmax_loss.cu, run on the fake GPU over batches, against its twin: equal bits. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

struct arrays {
    size_t pictures, classes;
    float *logits, *losses, *d_logits;
    int64_t *labels;
    uint32_t *corrects;
};

static struct arrays arrays_new(size_t pictures, size_t classes)
{
    return (struct arrays){
        .pictures = pictures,
        .classes = classes,
        .logits = guarded_new(pictures * classes),
        .losses = guarded_new(pictures),
        .d_logits = guarded_new(pictures * classes),
        .labels = guarded_bytes_new(pictures * sizeof(int64_t)),
        .corrects = guarded_bytes_new(pictures * sizeof(uint32_t)),
    };
}

static void arrays_free(const struct arrays *a)
{
    guarded_free(a->logits, a->pictures * a->classes);
    guarded_free(a->losses, a->pictures);
    guarded_free(a->d_logits, a->pictures * a->classes);
    guarded_bytes_free(a->labels, a->pictures * sizeof(int64_t));
    guarded_bytes_free(a->corrects, a->pictures * sizeof(uint32_t));
}

static void run(const struct arrays *a, bool with_gradient, uint32_t blocks)
{
    const struct softmax_arrays arrays = {a->logits, a->labels, a->losses, a->corrects,
                                          with_gradient ? a->d_logits : NULL};
    struct launch launch = softmax_loss_launch(a->pictures, a->classes, &arrays);
    launch.grid[0] = blocks > 0 ? blocks : launch.grid[0];
    run_on_shim(&launch);
}

static void check(const struct arrays *a)
{
    float *d_want = guarded_new(a->classes);
    for (size_t n = 0; n < a->pictures; n++) {
        bool correct;
        const float loss = softmax_loss_host(a->logits + n * a->classes, a->classes,
                                             (size_t)a->labels[n], d_want, &correct);
        assert_same_bits(&a->losses[n], &loss, 1);
        ck_assert_uint_eq(a->corrects[n], correct ? 1 : 0);
        assert_same_bits(a->d_logits + n * a->classes, d_want, a->classes);
    }
    guarded_free(d_want, a->classes);
}

/* Few different values, so that there are equals; special ones; and numbers of any size. */
static float random_logit(uint32_t kind, uint64_t *state)
{
    static const float SPECIAL[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e30F, -1e30F};
    if (kind == 1) {
        return (float)(random_bits(state) % 3);
    }
    if (kind == 2 && random_bits(state) % 3 == 0) {
        return SPECIAL[random_bits(state) % ARRAY_LEN(SPECIAL)];
    }
    return random_float(state) / 16;
}

static size_t first_best(const float *logits, size_t classes)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* Every other label is the answer, so that another answer among equals shows. */
static void check_random(size_t classes, uint32_t round, uint64_t *state)
{
    const struct arrays a = arrays_new(random_bits(state) % 4 + 1, classes);
    for (size_t i = 0; i < a.pictures * classes; i++) {
        a.logits[i] = random_logit(round % 4, state);
    }
    for (size_t n = 0; n < a.pictures; n++) {
        const size_t other = random_bits(state) % classes;
        const bool hit = random_bits(state) % 2 == 0;
        a.labels[n] = (int64_t)(hit ? first_best(a.logits + n * classes, classes) : other);
    }
    cuda_shim_set_order(round % CUDA_SHIM_ORDERS, random_bits(state));
    run(&a, true, round % 3);
    check(&a);
    memset(a.losses, 0xFF, a.pictures * sizeof(float));
    memset(a.corrects, 0xFF, a.pictures * sizeof(uint32_t));
    run(&a, false, 0);
    check(&a);
    arrays_free(&a);
}

START_TEST(equals_the_twin)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t round = 0; round < 400; round++) {
        check_random(random_bits(&state) % 20 + 1, round, &state);
    }
    for (uint32_t round = 0; round < 100; round++) { /* several tiles of classes */
        check_random(random_bits(&state) % 600 + 100, round, &state);
    }
    check_random(128, 0, &state);
    check_random(256, 0, &state);
    check_random(257, 0, &state);
}
END_TEST

START_TEST(a_label_that_is_no_class)
{
    const struct arrays a = arrays_new(2, 5);
    for (size_t i = 0; i < 10; i++) {
        a.logits[i] = (float)i;
    }
    a.labels[0] = -1;
    a.labels[1] = 5;
    run(&a, true, 0);
    for (size_t n = 0; n < 2; n++) {
        float sum = 0;
        for (size_t i = 0; i < 5; i++) {
            sum += a.d_logits[n * 5 + i];
        }
        ck_assert(isnan(a.losses[n]));
        ck_assert_uint_eq(a.corrects[n], 0);
        ck_assert(fabsf(sum - 1) < 1e-6F);
    }
    arrays_free(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax_loss_kernel");
    TCase *tc = tcase_create("softmax_loss_kernel");
    tcase_add_test(tc, equals_the_twin);
    tcase_add_test(tc, a_label_that_is_no_class);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
