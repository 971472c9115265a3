/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy against the same in double, with libm's exp and log. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "support/suite.h"

enum { CLASSES_MAX = 40 };

static double loss_double(const float *logits, size_t classes, size_t label, double *d_logits)
{
    double highest = logits[0];
    for (size_t i = 1; i < classes; i++) {
        highest = fmax(highest, logits[i]);
    }
    double sum = 0;
    for (size_t i = 0; i < classes; i++) {
        sum += exp(logits[i] - highest);
    }
    for (size_t i = 0; i < classes; i++) {
        d_logits[i] = exp(logits[i] - highest) / sum - (i == label);
    }
    return log(sum) - (logits[label] - highest);
}

/* exp is within 4e-7 above and below the line of the quotient, and up to 40 terms are added up. */
static const double GRADIENT_BOUND = 2e-6;

START_TEST(equals_double_within_rounding)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t round = 0; round < 20000; round++) {
        const size_t classes = 2 + random_bits(&state) % (CLASSES_MAX - 1);
        const size_t label = random_bits(&state) % classes;
        float logits[CLASSES_MAX], d_logits[CLASSES_MAX];
        double d_want[CLASSES_MAX];
        for (size_t i = 0; i < classes; i++) {
            logits[i] = random_float(&state) / 16;
        }
        bool correct;
        const double got = softmax_loss_host(logits, classes, label, d_logits, &correct);
        const double want = loss_double(logits, classes, label, d_want);
        ck_assert_msg(fabs(got - want) <= 1e-6 * (1 + fabs(want)), "loss %.9g, wanted %.9g", got,
                      want);
        for (size_t i = 0; i < classes; i++) {
            ck_assert_msg(fabs(d_logits[i] - d_want[i]) <= GRADIENT_BOUND,
                          "gradient %.9g, wanted %.9g", (double)d_logits[i], d_want[i]);
            ck_assert(!correct || logits[label] >= logits[i]);
        }
        ck_assert(softmax_loss_host(logits, classes, label, NULL, &correct) == (float)got);
    }
}
END_TEST

/* With two logits at a distance x the loss is log(1 + e^x). */
START_TEST(exp_and_log_keep_their_bound)
{
    for (int i = 0; i < 8700; i++) {
        const float x = -(float)i / 100;
        const float logits[2] = {0, x};
        float d_logits[2];
        bool correct;
        const double loss = softmax_loss_host(logits, 2, 0, d_logits, &correct);
        const double e = exp((double)x);
        ck_assert(fabs(d_logits[1] / (e / (1 + e)) - 1) < 4e-7);
        ck_assert(fabs(loss - log1p(e)) < 2e-7);
    }
}
END_TEST

START_TEST(extremes_stay_sane)
{
    bool correct;
    float d_logits[3];
    const float far[3] = {0, -1000, 1e30F};
    ck_assert(softmax_loss_host(far, 3, 2, d_logits, &correct) == 0);
    ck_assert(correct);
    ck_assert(d_logits[0] == 0 && d_logits[1] == 0 && d_logits[2] == 0);
    const float equal[3] = {7, 7, 7};
    ck_assert(fabs(softmax_loss_host(equal, 3, 1, NULL, &correct) - log(3)) < 1e-6);
    ck_assert(!correct); /* the first of equals is the answer */
    const float broken[3] = {1, NAN, 2};
    ck_assert(isnan(softmax_loss_host(broken, 3, 0, NULL, &correct)));
    const float infinite[3] = {1, INFINITY, INFINITY};
    ck_assert(isnan(softmax_loss_host(infinite, 3, 0, NULL, &correct)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax_loss");
    TCase *tc = tcase_create("softmax_loss");
    tcase_add_test(tc, equals_double_within_rounding);
    tcase_add_test(tc, exp_and_log_keep_their_bound);
    tcase_add_test(tc, extremes_stay_sane);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
