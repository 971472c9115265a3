/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network against the same network written in double from network.h, and its gradient against
 * finite differences of that one.
 */
#include "consumer/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"

enum { LAYERS = 3, POSITIONS_MAX = 32 * 32, FILTERS_MAX = 64 };

static const struct {
    int kernel, filters;
} LAYER[LAYERS] = {{5, 16}, {3, 32}, {3, 64}};
static const double MEAN[3] = {0.485, 0.456, 0.406};
static const double STD[3] = {0.229, 0.224, 0.225};

struct map { /* height x width x channels */
    int height, width, channels;
    double values[POSITIONS_MAX * FILTERS_MAX];
};

static double map_at(const struct map *map, int y, int x, int c)
{
    if (y < 0 || x < 0 || y >= map->height || x >= map->width) {
        return 0;
    }
    return map->values[(y * map->width + x) * map->channels + c];
}

static void convolve(const struct map *in, int layer, const double *weights, struct map *out)
{
    const int kernel = LAYER[layer].kernel;
    out->height = (in->height + 1) / 2;
    out->width = (in->width + 1) / 2;
    out->channels = LAYER[layer].filters;
    for (int i = 0; i < out->height * out->width * out->channels; i++) {
        const int f = i % out->channels;
        const int x = i / out->channels % out->width * 2 - kernel / 2;
        const int y = i / out->channels / out->width * 2 - kernel / 2;
        double sum = 0;
        for (int tap = 0; tap < kernel * kernel * in->channels; tap++) {
            const int c = tap % in->channels;
            const int kx = tap / in->channels % kernel;
            const int ky = tap / in->channels / kernel;
            sum += map_at(in, y + ky, x + kx, c) * weights[tap * out->channels + f];
        }
        out->values[i] = sum;
    }
}

static void normalize_channels(struct map *map)
{
    const int positions = map->height * map->width;
    for (int c = 0; c < map->channels; c++) {
        double mean = 0, variance = 0;
        for (int p = 0; p < positions; p++) {
            mean += map->values[p * map->channels + c] / positions;
        }
        for (int p = 0; p < positions; p++) {
            variance += pow(map->values[p * map->channels + c] - mean, 2) / positions;
        }
        for (int p = 0; p < positions; p++) {
            double *value = &map->values[p * map->channels + c];
            *value = (*value - mean) / sqrt(variance + 1e-3);
        }
    }
}

static double loss_double(const struct network_shape *shape, const double *parameters,
                          const uint8_t *picture, int label)
{
    static struct map maps[2];
    struct map *in = &maps[0];
    struct map *out = &maps[1];
    *in = (struct map){.height = (int)shape->height, .width = (int)shape->width, .channels = 3};
    for (int i = 0; i < in->height * in->width * 3; i++) {
        in->values[i] = (picture[i] / 255.0 - MEAN[i % 3]) / STD[i % 3];
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        const int weights = LAYER[layer].kernel * LAYER[layer].kernel * in->channels;
        convolve(in, layer, parameters, out);
        parameters += weights * out->channels;
        if (layer == 0) {
            normalize_channels(out);
        }
        for (int i = 0; i < out->height * out->width * out->channels; i++) {
            out->values[i] = fmax(0, out->values[i] + parameters[i % out->channels]);
        }
        parameters += out->channels;
        struct map *spare = in;
        in = out;
        out = spare;
    }
    double sum = 0, of_label = 0;
    for (int k = 0; k < (int)shape->classes; k++) {
        double logit = parameters[in->channels * (int)shape->classes + k];
        for (int i = 0; i < in->height * in->width * in->channels; i++) {
            logit += in->values[i] / (in->height * in->width) *
                     parameters[i % in->channels * (int)shape->classes + k];
        }
        sum += exp(logit);
        of_label = k == label ? logit : of_label;
    }
    return log(sum) - of_label;
}

struct fixture {
    struct network_shape shape;
    struct network *network;
    size_t count;
    float *parameters, *gradient;
    double *copy;
    uint8_t *picture;
};

static void fixture_init(struct fixture *f, const struct network_shape *shape, unsigned seed)
{
    struct err err = {0};
    *f = (struct fixture){.shape = *shape};
    ck_assert_msg(network_new(shape, &f->network, &err) == OK, "%s", err.message);
    f->count = network_parameters(f->network);
    f->parameters = calloc(f->count, sizeof(float));
    f->gradient = calloc(f->count, sizeof(float));
    f->copy = calloc(f->count, sizeof(double));
    f->picture = malloc((size_t)shape->height * shape->width * 3);
    srandom(seed);
    network_init(f->network, seed, f->parameters);
    for (size_t i = 0; i < f->count; i++) { /* biases begin at 0: move them too */
        f->parameters[i] += (float)(random() % 2001 - 1000) * 5e-5F;
        f->copy[i] = f->parameters[i];
    }
    for (size_t i = 0; i < (size_t)shape->height * shape->width * 3; i++) {
        f->picture[i] = (uint8_t)random();
    }
}

static void fixture_fini(struct fixture *f)
{
    network_free(&f->network);
    free(f->parameters);
    free(f->gradient);
    free(f->copy);
    free(f->picture);
}

static const struct network_shape SHAPES[] = {{16, 16, 8}, {13, 22, 5}, {1, 1, 2}, {3, 31, 10}};

START_TEST(loss_equals_double)
{
    const unsigned seed = (unsigned)test_seed();
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        struct fixture f;
        fixture_init(&f, &SHAPES[i], seed);
        bool correct;
        const double got = network_loss(f.network, f.parameters, f.picture, 1, &correct);
        const double want = loss_double(&f.shape, f.copy, f.picture, 1);
        ck_assert_msg(fabs(got - want) < 1e-4 * (1 + want), "loss %.9g, wanted %.9g", got, want);
        ck_assert(network_learn(f.network, f.parameters, f.picture, 1, f.gradient, &correct) ==
                  (float)got);
        fixture_fini(&f);
    }
}
END_TEST

/* A kink of a ReLU between the two points spoils a difference; few may be so. */
START_TEST(gradient_equals_finite_differences)
{
    const unsigned seed = (unsigned)test_seed();
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        struct fixture f;
        fixture_init(&f, &SHAPES[i], seed);
        bool correct;
        network_learn(f.network, f.parameters, f.picture, 1, f.gradient, &correct);
        int checked = 0, wrong = 0;
        const size_t stride = f.count / 400;
        for (size_t k = f.count - 1; k < f.count; k -= stride, checked++) {
            const double step = 1e-6;
            const double kept = f.copy[k];
            f.copy[k] = kept + step;
            const double above = loss_double(&f.shape, f.copy, f.picture, 1);
            f.copy[k] = kept - step;
            const double below = loss_double(&f.shape, f.copy, f.picture, 1);
            f.copy[k] = kept;
            const double want = (above - below) / (2 * step);
            wrong += fabs(f.gradient[k] - want) > 1e-4 + 1e-3 * fabs(want);
        }
        ck_assert_int_gt(checked, 400);
        ck_assert_msg(wrong <= 3, "%ux%u: %d of %d derivatives differ", f.shape.height,
                      f.shape.width, wrong, checked);
        fixture_fini(&f);
    }
}
END_TEST

START_TEST(gradients_add_up)
{
    struct fixture f;
    fixture_init(&f, &SHAPES[0], 7);
    float *once = calloc(f.count, sizeof(float));
    bool correct;
    network_learn(f.network, f.parameters, f.picture, 2, once, &correct);
    network_learn(f.network, f.parameters, f.picture, 2, f.gradient, &correct);
    network_learn(f.network, f.parameters, f.picture, 2, f.gradient, &correct);
    double size = 0;
    for (size_t i = 0; i < f.count; i++) {
        ck_assert(fabsf(f.gradient[i] - 2 * once[i]) <= 1e-4F * (1e-2F + fabsf(once[i])));
        size += fabsf(once[i]);
    }
    ck_assert(size > 0);
    free(once);
    fixture_fini(&f);
}
END_TEST

START_TEST(first_weights_come_from_the_seed)
{
    struct fixture f;
    fixture_init(&f, &SHAPES[0], 7);
    float *other = calloc(f.count, sizeof(float));
    network_init(f.network, 7, f.parameters);
    network_init(f.network, 7, other);
    ck_assert_mem_eq(f.parameters, other, f.count * sizeof(float));
    network_init(f.network, 8, other);
    size_t equal = 0;
    for (size_t i = 0; i < f.count; i++) {
        equal += f.parameters[i] == other[i];
    }
    ck_assert_uint_eq(equal, 16 + 32 + 64 + 8); /* the biases */
    free(other);
    fixture_fini(&f);
}
END_TEST

START_TEST(impossible_shapes_are_refused)
{
    static const struct network_shape WRONG[] = {
        {0, 4, 2}, {4, 0, 2}, {4097, 4, 2}, {4, 4097, 2}, {4, 4, 1}, {4, 4, 65537},
    };
    for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
        struct network *network = NULL;
        struct err err = {0};
        ck_assert_int_eq(network_new(&WRONG[i], &network, &err), ERR_CONFIG);
        ck_assert_ptr_null(network);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("network");
    TCase *tc = tcase_create("network");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, loss_equals_double);
    tcase_add_test(tc, gradient_equals_finite_differences);
    tcase_add_test(tc, gradients_add_up);
    tcase_add_test(tc, first_weights_come_from_the_seed);
    tcase_add_test(tc, impossible_shapes_are_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
