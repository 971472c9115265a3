/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses, with a getaddrinfo of our own in front of the system's: it obeys the name.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/net.h"
#include "support/suite.h"

static atomic_int calls;
static atomic_bool let_go; /* the look-up of "late" returns */

static struct addrinfo *entry(int family, const char *address, struct addrinfo *next)
{
    struct addrinfo *info = calloc(1, sizeof(*info) + sizeof(struct sockaddr_in6));
    ck_assert_ptr_nonnull(info);
    info->ai_family = family;
    info->ai_addr = (struct sockaddr *)(info + 1);
    info->ai_addr->sa_family = (sa_family_t)family;
    void *bytes = family == AF_INET ? (void *)&((struct sockaddr_in *)info->ai_addr)->sin_addr
                                    : (void *)&((struct sockaddr_in6 *)info->ai_addr)->sin6_addr;
    ck_assert_int_eq(inet_pton(family, address, bytes), 1);
    info->ai_next = next;
    return info;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    const int call = atomic_fetch_add(&calls, 1);
    if (strcmp(name, "hangs") == 0) {
        for (;;) {
            pause();
        }
    }
    if (strcmp(name, "third-time") == 0 && call < 2) {
        return EAI_AGAIN;
    }
    if (strcmp(name, "nobody") == 0) {
        return EAI_NONAME;
    }
    while (strcmp(name, "late") == 0 && !atomic_load(&let_go)) {
        usleep(1000);
    }
    if (strcmp(name, "six-only") == 0) {
        *out = entry(AF_INET6, "2001:db8::7", NULL);
        return 0;
    }
    *out = entry(AF_INET6, "2001:db8::7", entry(AF_INET, "192.0.2.7", NULL));
    return 0;
}

void freeaddrinfo(struct addrinfo *info)
{
    while (info != NULL) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

static int64_t after_ms(int ms)
{
    return clock_now_ns() + ms * NS_PER_MS;
}

START_TEST(a_name_becomes_an_address)
{
    char address[ADDR_BYTES_MAX];
    ck_assert_int_eq(net_resolve("algo-1", after_ms(20000), address, NULL), OK);
    ck_assert_str_eq(address, "192.0.2.7");
    ck_assert_int_eq(net_resolve("six-only", after_ms(20000), address, NULL), OK);
    ck_assert_str_eq(address, "2001:db8::7");
}
END_TEST

START_TEST(a_numeric_address_is_not_looked_up)
{
    char address[ADDR_BYTES_MAX];
    ck_assert_int_eq(net_resolve("127.0.0.9", 0, address, NULL), OK);
    ck_assert_str_eq(address, "127.0.0.9");
    ck_assert_int_eq(net_resolve("::1", 0, address, NULL), OK);
    ck_assert_str_eq(address, "::1");
    ck_assert_int_eq(atomic_load(&calls), 0);
}
END_TEST

START_TEST(a_failure_is_tried_again)
{
    char address[ADDR_BYTES_MAX];
    ck_assert_int_eq(net_resolve("third-time", after_ms(20000), address, NULL), OK);
    ck_assert_str_eq(address, "192.0.2.7");
    ck_assert_int_eq(atomic_load(&calls), 3);
}
END_TEST

START_TEST(the_deadline_names_host_and_reason)
{
    char address[ADDR_BYTES_MAX] = "untouched";
    struct err err = {0};
    const int64_t deadline_ns = after_ms(1500);
    ck_assert_int_eq(net_resolve("nobody", deadline_ns, address, &err), ERR_TIMEOUT);
    ck_assert_int_ge(clock_now_ns(), deadline_ns);
    ck_assert_msg(strstr(err.message, "host nobody has no address") != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, "Name or service not known") != NULL, "%s", err.message);
    ck_assert_str_eq(address, "untouched");
    ck_assert_int_ge(atomic_load(&calls), 2);
}
END_TEST

/* A look-up that never returns: its thread is left behind, and only one. */
START_TEST(a_look_up_that_hangs_does_not_hold_the_caller)
{
    char address[ADDR_BYTES_MAX];
    struct err err = {0};
    ck_assert_int_eq(net_resolve("hangs", after_ms(200), address, &err), ERR_TIMEOUT);
    ck_assert_msg(strstr(err.message, "the look-up did not return") != NULL, "%s", err.message);
    ck_assert_int_eq(atomic_load(&calls), 1);
    ck_assert_int_eq(net_resolve("algo-1", after_ms(20000), address, NULL), OK);
}
END_TEST

/* The answer comes when nobody listens any more: no signal, no memory touched. */
START_TEST(a_late_answer_is_thrown_away)
{
    char address[ADDR_BYTES_MAX] = "untouched";
    ck_assert_int_eq(net_resolve("late", after_ms(50), address, NULL), ERR_TIMEOUT);
    atomic_store(&let_go, true);
    ck_assert_int_eq(net_resolve("late", after_ms(20000), address, NULL), OK);
    ck_assert_str_eq(address, "192.0.2.7");
}
END_TEST

START_TEST(names_out_of_bounds_are_refused)
{
    char name[HOST_BYTES_MAX + 1];
    memset(name, 'a', sizeof(name));
    name[HOST_BYTES_MAX] = '\0';
    char address[ADDR_BYTES_MAX];
    ck_assert_int_eq(net_resolve(name, after_ms(20000), address, NULL), ERR_CONFIG);
    ck_assert_int_eq(net_resolve("", after_ms(20000), address, NULL), ERR_CONFIG);
    ck_assert_int_eq(atomic_load(&calls), 0);
}
END_TEST

START_TEST(kinds_of_addresses)
{
    ck_assert(net_address_is_numeric("192.0.2.1") && net_address_is_numeric("fe80::1"));
    ck_assert(!net_address_is_numeric("algo-1") && !net_address_is_numeric("127.1"));
    ck_assert(net_address_is_loopback("127.0.0.1") && net_address_is_loopback("127.255.0.9"));
    ck_assert(net_address_is_loopback("::1"));
    ck_assert(!net_address_is_loopback("128.0.0.1") && !net_address_is_loopback("0.0.0.0"));
    ck_assert(!net_address_is_loopback("::") && !net_address_is_loopback("localhost"));
    ck_assert(net_address_on_interface("127.9.9.9", "no-such-interface"));
    ck_assert(!net_address_on_interface("192.0.2.1", "lo"));
    ck_assert(!net_address_on_interface("2001:db8::1", "lo"));
    ck_assert(!net_address_on_interface("localhost", "lo"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net_resolve");
    TCase *tc = tcase_create("net_resolve");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_name_becomes_an_address);
    tcase_add_test(tc, a_numeric_address_is_not_looked_up);
    tcase_add_test(tc, a_failure_is_tried_again);
    tcase_add_test(tc, the_deadline_names_host_and_reason);
    tcase_add_test(tc, a_look_up_that_hangs_does_not_hold_the_caller);
    tcase_add_test(tc, a_late_answer_is_thrown_away);
    tcase_add_test(tc, names_out_of_bounds_are_refused);
    tcase_add_test(tc, kinds_of_addresses);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
