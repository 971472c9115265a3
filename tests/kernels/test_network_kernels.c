/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels put together as the reference trainer's network, on the fake GPU, for a batch: every
 * loss is the host network's, to the bit, and the gradient is the sum of the host's gradients of
 * the single pictures, in their order.
 */
#include "consumer/network.h"
#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

enum { LAYERS = 3 };

/* As in network.c, which this restates: layers, parameters layer by layer, weights before bias. */
static const struct conv DESIGN[LAYERS] = {
    {.kernel = 5, .stride = 2, .channels = 3, .filters = 16, .planar = true},
    {.kernel = 3, .stride = 2, .channels = 16, .filters = 32},
    {.kernel = 3, .stride = 2, .channels = 32, .filters = 64},
};
static const float MEAN[3] = {0.485F, 0.456F, 0.406F};
static const float STD[3] = {0.229F, 0.224F, 0.225F};

struct layer {
    struct conv conv;
    struct maps maps;
    size_t weights, bias, count; /* offsets; elements of the batch's maps */
    float *before, *out, *d_out;
};

/* The batch on the device. */
struct model {
    size_t pictures, classes, features, linear_weights, linear_bias, parameters;
    struct layer layers[LAYERS];
    float *input, *pooled, *d_pooled, *logits, *d_logits, *losses;
    float *means, *inverses, *parts; /* parts: of any layer's gradient, picture by picture */
    size_t input_count, norm_count, parts_count;
    uint32_t *corrects;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void model_layers(struct model *m, size_t height, size_t width)
{
    size_t offset = 0;
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &m->layers[i];
        l->conv = DESIGN[i];
        l->conv.height = height;
        l->conv.width = width;
        height = conv_side(&l->conv, height);
        width = conv_side(&l->conv, width);
        l->maps = (struct maps){m->pictures, height * width, l->conv.filters};
        l->count = m->pictures * height * width * l->conv.filters;
        l->weights = offset;
        l->bias = offset + conv_weights(&l->conv);
        offset = l->bias + l->conv.filters;
        l->before = guarded_new(l->count);
        l->out = guarded_new(l->count);
        l->d_out = guarded_new(l->count);
        m->parts_count = larger(m->parts_count, m->pictures * conv_weights(&l->conv));
    }
    m->features = m->layers[LAYERS - 1].conv.filters;
    m->linear_weights = offset;
    m->linear_bias = offset + m->features * m->classes;
    m->parameters = m->linear_bias + m->classes;
}

static struct model model_new(size_t pictures, const struct network_shape *shape)
{
    struct model m = {.pictures = pictures, .classes = shape->classes};
    model_layers(&m, shape->height, shape->width);
    m.input_count = pictures * 3 * shape->height * shape->width;
    m.norm_count = pictures * m.layers[0].conv.filters;
    m.input = guarded_new(m.input_count);
    m.pooled = guarded_new(pictures * m.features);
    m.d_pooled = guarded_new(pictures * m.features);
    m.logits = guarded_new(pictures * m.classes);
    m.d_logits = guarded_new(pictures * m.classes);
    m.losses = guarded_new(pictures);
    m.means = guarded_new(2 * m.norm_count); /* two kinds of means while going backward */
    m.inverses = guarded_new(m.norm_count);
    m.parts = guarded_new(m.parts_count);
    m.corrects = guarded_bytes_new(pictures * sizeof(uint32_t));
    return m;
}

static void model_free(struct model *m)
{
    for (int i = 0; i < LAYERS; i++) {
        guarded_free(m->layers[i].before, m->layers[i].count);
        guarded_free(m->layers[i].out, m->layers[i].count);
        guarded_free(m->layers[i].d_out, m->layers[i].count);
    }
    guarded_free(m->input, m->input_count);
    guarded_free(m->pooled, m->pictures * m->features);
    guarded_free(m->d_pooled, m->pictures * m->features);
    guarded_free(m->logits, m->pictures * m->classes);
    guarded_free(m->d_logits, m->pictures * m->classes);
    guarded_free(m->losses, m->pictures);
    guarded_free(m->means, 2 * m->norm_count);
    guarded_free(m->inverses, m->norm_count);
    guarded_free(m->parts, m->parts_count);
    guarded_bytes_free(m->corrects, m->pictures * sizeof(uint32_t));
}

static void run(struct launch launch)
{
    run_on_shim(&launch);
}

static void forward(const struct model *m, const float *parameters, const uint8_t *pictures,
                    const int64_t *labels)
{
    const struct conv *first = &m->layers[0].conv;
    struct normalize normalize =
        normalize_dense(m->pictures, first->height, first->width, NORMALIZE_F32, false);
    normalize_factors(&normalize, MEAN, STD);
    run(normalize_launch(&normalize, pictures, m->input));
    const float *in = m->input;
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *l = &m->layers[i];
        run(conv_launch(&l->conv, m->pictures, in, parameters + l->weights, l->before));
        if (i == 0) {
            run(channel_norm_moments_launch(&l->maps, l->before, m->means, m->inverses));
            run(channel_norm_launch(&l->maps, l->before, m->means, m->inverses, l->before));
        }
        run(bias_relu_launch(&l->maps, l->before, parameters + l->bias, l->out));
        in = l->out;
    }
    run(mean_pool_launch(&m->layers[LAYERS - 1].maps, in, m->pooled));
    const struct gemm linear = {
        m->pictures,
        m->classes,
        m->features,
        m->pooled,
        m->features,
        1,
        parameters + m->linear_weights,
        m->classes,
        1,
        m->logits,
        m->classes,
        false,
    };
    run(gemm_launch(&linear, parameters + m->linear_bias));
    const struct softmax_arrays arrays = {m->logits, labels, m->losses, m->corrects, m->d_logits};
    run(softmax_loss_launch(m->pictures, m->classes, &arrays));
}

static void backward_linear(const struct model *m, const float *parameters, float *gradient)
{
    run(sum_pictures_launch(m->pictures, m->classes, m->d_logits, gradient + m->linear_bias));
    const struct gemm weights = {
        m->features, m->classes,  m->pictures, m->pooled, 1,
        m->features, m->d_logits, m->classes,  1,         gradient + m->linear_weights,
        m->classes,  true,
    };
    run(gemm_launch(&weights, NULL));
    const struct gemm input = {
        m->pictures,
        m->features,
        m->classes,
        m->d_logits,
        m->classes,
        1,
        parameters + m->linear_weights,
        1,
        m->classes,
        m->d_pooled,
        m->features,
        false,
    };
    run(gemm_launch(&input, NULL));
}

static void backward(const struct model *m, const float *parameters, float *gradient)
{
    backward_linear(m, parameters, gradient);
    const struct layer *last = &m->layers[LAYERS - 1];
    run(mean_pool_gradient_launch(&last->maps, m->d_pooled, last->d_out));
    for (int i = LAYERS - 1; i >= 0; i--) {
        const struct layer *l = &m->layers[i];
        const size_t filters = l->conv.filters;
        run(relu_gradient_launch(l->count, l->out, l->d_out));
        run(bias_gradient_launch(&l->maps, l->d_out, m->parts));
        run(sum_pictures_launch(m->pictures, filters, m->parts, gradient + l->bias));
        if (i == 0) {
            float *along = m->means + m->norm_count;
            run(channel_norm_gradient_means_launch(&l->maps, l->before, l->d_out, m->means, along));
            run(channel_norm_gradient_launch(&l->maps, l->before, m->inverses, m->means, along,
                                             l->d_out));
        }
        const float *in = i > 0 ? m->layers[i - 1].out : m->input;
        run(conv_weights_gradient_launch(&l->conv, m->pictures, in, l->d_out, m->parts));
        run(sum_pictures_launch(m->pictures, conv_weights(&l->conv), m->parts,
                                gradient + l->weights));
        if (i > 0) {
            run(conv_input_gradient_launch(&l->conv, m->pictures, parameters + l->weights, l->d_out,
                                           m->layers[i - 1].d_out));
        }
    }
}

static struct network *network_of(const struct network_shape *shape)
{
    struct network *network;
    struct err err;
    ck_assert_int_eq(network_new(shape, &network, &err), OK);
    return network;
}

static void check(const struct network_shape *shape, size_t pictures, uint64_t *state)
{
    struct network *network = network_of(shape);
    struct model model = model_new(pictures, shape);
    const size_t count = network_parameters(network);
    ck_assert_uint_eq(model.parameters, count);
    const size_t bytes = (size_t)3 * shape->height * shape->width;
    uint8_t *in = guarded_bytes_new(pictures * bytes);
    int64_t *labels = guarded_bytes_new(pictures * sizeof(*labels));
    float *parameters = guarded_new(count);
    float *got = guarded_new(count);
    float *want = guarded_new(count);
    float *one = guarded_new(count);
    network_init(network, random_bits(state), parameters);
    for (size_t i = 0; i < pictures * bytes; i++) {
        in[i] = (uint8_t)random_bits(state);
    }
    for (size_t i = 0; i < pictures; i++) {
        labels[i] = random_bits(state) % shape->classes;
    }
    memset(got, 0, count * sizeof(float));
    memset(want, 0, count * sizeof(float));
    cuda_shim_set_order(random_bits(state) % CUDA_SHIM_ORDERS, random_bits(state));
    forward(&model, parameters, in, labels);
    backward(&model, parameters, got);
    for (size_t n = 0; n < pictures; n++) {
        bool correct;
        memset(one, 0, count * sizeof(float));
        const float loss =
            network_learn(network, parameters, in + n * bytes, (size_t)labels[n], one, &correct);
        sum_pictures_host(one, 1, count, want);
        assert_same_bits(&model.losses[n], &loss, 1);
        ck_assert_uint_eq(model.corrects[n], correct ? 1 : 0);
    }
    assert_floats_equal(got, want, count);
    guarded_bytes_free(in, pictures * bytes);
    guarded_bytes_free(labels, pictures * sizeof(*labels));
    guarded_free(parameters, count);
    guarded_free(got, count);
    guarded_free(want, count);
    guarded_free(one, count);
    model_free(&model);
    network_free(&network);
}

START_TEST(equals_the_host_network)
{
    uint64_t state = test_seed() | 1;
    check(&(struct network_shape){1, 1, 2}, 1, &state);
    check(&(struct network_shape){8, 13, 3}, 1, &state);
    check(&(struct network_shape){17, 12, 40}, 5, &state);
    check(&(struct network_shape){32, 32, 10}, 20, &state);
    check(&(struct network_shape){65, 70, 8}, 3, &state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("network_kernels");
    TCase *tc = tcase_create("network_kernels");
    tcase_add_test(tc, equals_the_host_network);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
