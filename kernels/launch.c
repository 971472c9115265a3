/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: names, parameters and sizes. A kernel does all its work in any grid (its blocks
 * stride), so that a grid is a matter of speed, and limited here to what every device takes. */
#include "kernels/launch.h"

#include "kernels/tile.h"

/* The device's limits are 2^31 - 1 blocks in x and 65535 in y and z. */
enum { GRID_X_MAX = 1 << 30, GRID_YZ_MAX = 65535 };

void launch_params(struct launch *launch, void *params[LAUNCH_PARAMS_MAX])
{
    for (uint32_t i = 0; i < launch->params; i++) {
        params[i] = &launch->values[i];
    }
}

static void add_pointer(struct launch *launch, const void *pointer)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX);
    launch->values[launch->params++].pointer = pointer;
}

static void add_u64(struct launch *launch, size_t value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX && value <= LAUNCH_ELEMENTS_MAX);
    launch->values[launch->params++].u64 = value;
}

static void add_u32(struct launch *launch, size_t value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX && value <= LAUNCH_SIDE_MAX);
    launch->values[launch->params++].u32 = (uint32_t)value;
}

static void add_f32(struct launch *launch, float value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX);
    launch->values[launch->params++].f32 = value;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b > 0 ? 1 : 0);
}

/* x, y, z: how many blocks would do, each with a piece. */
static void set_grid(struct launch *launch, size_t x, size_t y, size_t z)
{
    launch->empty = x == 0 || y == 0 || z == 0;
    launch->grid[0] = (uint32_t)smaller(x, GRID_X_MAX);
    launch->grid[1] = (uint32_t)smaller(y, GRID_YZ_MAX);
    launch->grid[2] = (uint32_t)smaller(z, GRID_YZ_MAX);
}

static void set_block(struct launch *launch, size_t threads, size_t shared_bytes)
{
    launch->block[0] = (uint32_t)threads;
    launch->block[1] = 1;
    launch->block[2] = 1;
    launch->shared_bytes = (uint32_t)shared_bytes;
}

/* A picture without gaps between its rows is one long row. */
static struct normalize with_long_rows(const struct normalize *normalize)
{
    struct normalize n = *normalize;
    const size_t out_row = n.nhwc ? 3 * n.width : n.width;
    if (n.in_row == 3 * n.width && n.out_row == out_row &&
        n.height * n.width <= LAUNCH_SIDE_MAX / 4) {
        n.width *= n.height;
        n.height = 1;
    }
    return n;
}

struct launch normalize_launch(const struct normalize *normalize, const uint8_t *in, void *out)
{
    static const char *const NAMES[3][2] = {
        {"normalize_f32_nchw", "normalize_f32_nhwc"},
        {"normalize_f16_nchw", "normalize_f16_nhwc"},
        {"normalize_bf16_nchw", "normalize_bf16_nhwc"},
    };
    CHECK(normalize->height < 1 << 16 && normalize->width < 1 << 16);
    const struct normalize n = with_long_rows(normalize);
    struct launch launch = {.kernel = NAMES[n.type][n.nhwc ? 1 : 0]};
    size_t threads = NORMALIZE_THREADS; /* fewer if a row is not enough for so many */
    while (threads > 32 && threads / 2 * NORMALIZE_PIXELS >= n.width) {
        threads /= 2;
    }
    set_block(&launch, threads, NORMALIZE_SHARED_BYTES(threads));
    set_grid(&launch, ceil_div(n.width, threads * NORMALIZE_PIXELS), n.height, n.pictures);
    add_pointer(&launch, in);
    add_pointer(&launch, out);
    add_u32(&launch, n.pictures);
    add_u32(&launch, n.height);
    add_u32(&launch, n.width);
    add_u64(&launch, n.in_row);
    add_u64(&launch, n.in_picture);
    add_u64(&launch, n.out_row);
    add_u64(&launch, n.out_plane);
    add_u64(&launch, n.out_picture);
    for (int c = 0; c < 3; c++) {
        add_f32(&launch, n.scale[c]);
    }
    for (int c = 0; c < 3; c++) {
        add_f32(&launch, n.bias[c]);
    }
    return launch;
}

/* Threads that stride over `count` elements of each picture, a few elements each. */
static struct launch over_elements(const char *kernel, size_t count, size_t pictures)
{
    enum { ELEMENTS_EACH = 4 };
    struct launch launch = {.kernel = kernel};
    set_block(&launch, ELEMENT_THREADS, 0);
    set_grid(&launch, ceil_div(count, ELEMENT_THREADS * ELEMENTS_EACH), pictures, 1);
    return launch;
}

/* A thread for each of `count` sums. */
static struct launch over_sums(const char *kernel, size_t count)
{
    struct launch launch = {.kernel = kernel};
    set_block(&launch, SUM_THREADS, 0);
    set_grid(&launch, ceil_div(count, SUM_THREADS), 1, 1);
    return launch;
}

/* Kernels count a picture's elements in 32 bits. */
static size_t picture_elements(const struct maps *maps)
{
    CHECK(maps->positions < LAUNCH_SIDE_MAX && maps->channels < LAUNCH_SIDE_MAX);
    const size_t count = maps->positions * maps->channels;
    CHECK(count < LAUNCH_SIDE_MAX);
    return count;
}

static struct launch over_map_elements(const char *kernel, const struct maps *maps)
{
    return over_elements(kernel, picture_elements(maps), maps->pictures);
}

static struct launch over_map_sums(const char *kernel, const struct maps *maps)
{
    (void)picture_elements(maps);
    CHECK(maps->pictures < LAUNCH_SIDE_MAX);
    return over_sums(kernel, maps->pictures * maps->channels);
}

static void add_maps(struct launch *launch, const struct maps *maps)
{
    add_u32(launch, maps->pictures);
    add_u32(launch, maps->positions);
    add_u32(launch, maps->channels);
}

static float share_of(const struct maps *maps)
{
    return 1.0F / (float)maps->positions;
}

static struct launch channel_sums(const struct maps *maps, const float *in, float factor,
                                  float *out)
{
    struct launch launch = over_map_sums("channel_sums", maps);
    add_pointer(&launch, in);
    add_pointer(&launch, out);
    add_maps(&launch, maps);
    add_f32(&launch, factor);
    return launch;
}

struct launch mean_pool_launch(const struct maps *maps, const float *in, float *out)
{
    return channel_sums(maps, in, share_of(maps), out);
}

struct launch bias_gradient_launch(const struct maps *maps, const float *d, float *parts)
{
    return channel_sums(maps, d, 1, parts);
}

struct launch sum_pictures_launch(size_t pictures, size_t count, const float *parts, float *sum)
{
    struct launch launch = over_sums("sum_pictures", count);
    add_pointer(&launch, parts);
    add_pointer(&launch, sum);
    add_u32(&launch, pictures);
    add_u64(&launch, count);
    return launch;
}

struct launch mean_pool_gradient_launch(const struct maps *maps, const float *d_out, float *d_in)
{
    struct launch launch = over_map_elements("mean_pool_gradient", maps);
    add_pointer(&launch, d_out);
    add_pointer(&launch, d_in);
    add_maps(&launch, maps);
    add_f32(&launch, share_of(maps));
    return launch;
}

struct launch bias_relu_launch(const struct maps *maps, const float *in, const float *bias,
                               float *out)
{
    struct launch launch = over_map_elements("bias_relu", maps);
    add_pointer(&launch, in);
    add_pointer(&launch, bias);
    add_pointer(&launch, out);
    add_maps(&launch, maps);
    return launch;
}

struct launch relu_gradient_launch(size_t count, const float *out, float *d)
{
    struct launch launch = over_elements("relu_gradient", count, 1);
    add_pointer(&launch, out);
    add_pointer(&launch, d);
    add_u64(&launch, count);
    return launch;
}

struct launch channel_norm_moments_launch(const struct maps *maps, const float *in, float *means,
                                          float *inverses)
{
    struct launch launch = over_map_sums("channel_norm_moments", maps);
    add_pointer(&launch, in);
    add_pointer(&launch, means);
    add_pointer(&launch, inverses);
    add_maps(&launch, maps);
    add_f32(&launch, share_of(maps));
    add_f32(&launch, CHANNEL_NORM_FLOOR);
    return launch;
}

struct launch channel_norm_launch(const struct maps *maps, const float *in, const float *means,
                                  const float *inverses, float *out)
{
    struct launch launch = over_map_elements("channel_norm", maps);
    add_pointer(&launch, in);
    add_pointer(&launch, means);
    add_pointer(&launch, inverses);
    add_pointer(&launch, out);
    add_maps(&launch, maps);
    return launch;
}

struct launch channel_norm_gradient_means_launch(const struct maps *maps, const float *out,
                                                 const float *d, float *d_means, float *along_means)
{
    struct launch launch = over_map_sums("channel_norm_gradient_means", maps);
    add_pointer(&launch, out);
    add_pointer(&launch, d);
    add_pointer(&launch, d_means);
    add_pointer(&launch, along_means);
    add_maps(&launch, maps);
    add_f32(&launch, share_of(maps));
    return launch;
}

struct launch channel_norm_gradient_launch(const struct maps *maps, const float *out,
                                           const float *inverses, const float *d_means,
                                           const float *along_means, float *d)
{
    struct launch launch = over_map_elements("channel_norm_gradient", maps);
    add_pointer(&launch, out);
    add_pointer(&launch, inverses);
    add_pointer(&launch, d_means);
    add_pointer(&launch, along_means);
    add_pointer(&launch, d);
    add_maps(&launch, maps);
    return launch;
}

struct launch softmax_loss_launch(size_t pictures, size_t classes,
                                  const struct softmax_arrays *arrays)
{
    struct launch launch = {.kernel = "softmax_loss"};
    CHECK(classes > 0);
    set_block(&launch, SOFTMAX_THREADS, SOFTMAX_SHARED_BYTES);
    set_grid(&launch, pictures, 1, 1);
    add_pointer(&launch, arrays->logits);
    add_pointer(&launch, arrays->labels);
    add_pointer(&launch, arrays->losses);
    add_pointer(&launch, arrays->corrects);
    add_pointer(&launch, arrays->d_logits);
    add_u32(&launch, pictures);
    add_u32(&launch, classes);
    return launch;
}

struct launch sgd_launch(const struct sgd *sgd, float *parameters, float *velocity,
                         const float *gradient, size_t count)
{
    struct launch launch = over_elements("sgd", count, 1);
    add_pointer(&launch, parameters);
    add_pointer(&launch, velocity);
    add_pointer(&launch, gradient);
    add_u64(&launch, count);
    add_f32(&launch, sgd->scale);
    add_f32(&launch, sgd->momentum);
    add_f32(&launch, sgd->learning_rate);
    return launch;
}

/* m x n elements by tiles of 16 or 64 columns: few columns would leave much of a wide tile idle.
 * names: of the two. */
static struct launch over_tiles(const char *const names[2], size_t m, size_t n, size_t z)
{
    enum { NARROW_MAX = 32 };
    const size_t columns = n <= NARROW_MAX ? 16 : 64;
    struct launch launch = {.kernel = names[columns == 16 ? 0 : 1]};
    set_block(&launch, PRODUCT_THREADS(columns), PRODUCT_SHARED_BYTES(columns));
    set_grid(&launch, ceil_div(m, PRODUCT_ROWS), ceil_div(n, columns), z);
    return launch;
}

struct launch gemm_launch(const struct gemm *gemm, const float *first_row)
{
    static const char *const NAMES[2] = {"gemm_16", "gemm_64"};
    CHECK(first_row == NULL || !gemm->accumulate);
    struct launch launch = over_tiles(NAMES, gemm->m, gemm->n, 1);
    add_u32(&launch, gemm->m);
    add_u32(&launch, gemm->n);
    add_u32(&launch, gemm->k);
    add_pointer(&launch, gemm->a);
    add_u64(&launch, gemm->a_row);
    add_u64(&launch, gemm->a_column);
    add_pointer(&launch, gemm->b);
    add_u64(&launch, gemm->b_row);
    add_u64(&launch, gemm->b_column);
    add_pointer(&launch, gemm->c);
    add_u64(&launch, gemm->c_row);
    add_pointer(&launch, gemm->accumulate ? gemm->c : first_row);
    add_u64(&launch, gemm->accumulate ? gemm->c_row : 0);
    return launch;
}

static size_t conv_positions(const struct conv *conv)
{
    return conv_side(conv, conv->height) * conv_side(conv, conv->width);
}

/* Kernels count pixels and positions of the whole batch, and elements of a picture, in 32 bits. */
static void check_conv(const struct conv *conv, size_t pictures)
{
    const size_t sides_max = 1 << 15;
    CHECK(conv->height > 0 && conv->height < sides_max);
    CHECK(conv->width > 0 && conv->width < sides_max);
    CHECK(conv->kernel % 2 == 1 && conv->kernel < sides_max);
    CHECK(conv->stride > 0 && conv->stride < sides_max);
    CHECK(conv->channels < sides_max && conv->filters < sides_max);
    const size_t pixels = conv->height * conv->width;
    CHECK(pictures < LAUNCH_SIDE_MAX && pictures * pixels < LAUNCH_SIDE_MAX);
    CHECK(pixels * conv->channels < LAUNCH_SIDE_MAX);
    CHECK(conv_weights(conv) < LAUNCH_SIDE_MAX);
}

static void add_conv(struct launch *launch, const struct conv *conv, size_t pictures)
{
    add_u32(launch, pictures);
    add_u32(launch, conv->height);
    add_u32(launch, conv->width);
    add_u32(launch, conv->channels);
    add_u32(launch, conv->kernel);
    add_u32(launch, conv->stride);
    add_u32(launch, conv->filters);
    add_u32(launch, conv->planar ? 1 : 0);
}

struct launch conv_launch(const struct conv *conv, size_t pictures, const float *in,
                          const float *weights, float *out)
{
    static const char *const NAMES[2] = {"conv_16", "conv_64"};
    check_conv(conv, pictures);
    struct launch launch = over_tiles(NAMES, pictures * conv_positions(conv), conv->filters, 1);
    add_pointer(&launch, in);
    add_pointer(&launch, weights);
    add_pointer(&launch, out);
    add_conv(&launch, conv, pictures);
    return launch;
}

struct launch conv_weights_gradient_launch(const struct conv *conv, size_t pictures,
                                           const float *in, const float *d_out, float *parts)
{
    static const char *const NAMES[2] = {"conv_weights_gradient_16", "conv_weights_gradient_64"};
    check_conv(conv, pictures);
    const size_t taps = conv->kernel * conv->kernel * conv->channels;
    struct launch launch = over_tiles(NAMES, taps, conv->filters, pictures);
    add_pointer(&launch, in);
    add_pointer(&launch, d_out);
    add_pointer(&launch, parts);
    add_conv(&launch, conv, pictures);
    return launch;
}

struct launch conv_input_gradient_launch(const struct conv *conv, size_t pictures,
                                         const float *weights, const float *d_out, float *d_in)
{
    static const char *const NAMES[2] = {"conv_input_gradient_16", "conv_input_gradient_64"};
    check_conv(conv, pictures);
    CHECK(!conv->planar);
    /* Pixels by their places within a stride: of the largest such class. */
    const size_t rows = ceil_div(conv->height, conv->stride);
    const size_t columns = ceil_div(conv->width, conv->stride);
    struct launch launch =
        over_tiles(NAMES, pictures * rows * columns, conv->channels, conv->stride * conv->stride);
    add_pointer(&launch, weights);
    add_pointer(&launch, d_out);
    add_pointer(&launch, d_in);
    add_conv(&launch, conv, pictures);
    return launch;
}
