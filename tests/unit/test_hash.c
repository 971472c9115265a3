/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <string.h>

#include "support/suite.h"

/* xxHash's own sanity values for XXH3 with seed 0 and no input. */
START_TEST(empty_input_has_the_published_values)
{
    ck_assert_uint_eq(hash64("", 0), UINT64_C(0x2D06800538D394C2));
    const struct hash128 h = hash128("", 0);
    ck_assert_uint_eq(h.low, UINT64_C(0x6001C324468D497F));
    ck_assert_uint_eq(h.high, UINT64_C(0x99AA06D3014798D8));
}
END_TEST

START_TEST(copying_hashes_what_was_copied)
{
    static uint8_t source[70000], target[70001];
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    static const size_t COUNTS[] = {0, 1, 255, 256, 16384, 16385, 32768, 70000};
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        memset(target, 0xA5, sizeof(target));
        const struct hash128 copied = hash128_copy(target, source, COUNTS[i]);
        const struct hash128 whole = hash128(source, COUNTS[i]);
        ck_assert_uint_eq(copied.low, whole.low);
        ck_assert_uint_eq(copied.high, whole.high);
        ck_assert_int_eq(memcmp(source, target, COUNTS[i]), 0);
        ck_assert_uint_eq(target[COUNTS[i]], 0xA5);
    }
}
END_TEST

START_TEST(values_are_stored_little_endian)
{
    uint8_t bytes[8];
    hash_put64(bytes, UINT64_C(0x0123456789ABCDEF));
    ck_assert_uint_eq(bytes[0], 0xEF);
    ck_assert_uint_eq(bytes[7], 0x01);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *tc = tcase_create("hash");
    tcase_add_test(tc, empty_input_has_the_published_values);
    tcase_add_test(tc, copying_hashes_what_was_copied);
    tcase_add_test(tc, values_are_stored_little_endian);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
