#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints src/common/unicode.def: what Python's str.upper() and str.isprintable() know, as rows of a table.

usage: unicode_tables.py            print the table
       unicode_tables.py --check FILE   compare FILE with it; exit code 77 where this Python knows another Unicode
"""
import sys
import unicodedata

VERSION = "14.0.0"
HEADER = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unicode %s, as much of it as Python's str.upper() and str.isprintable() use. Printed by
 * tests/integration/unicode_tables.py and checked against it; not to be changed by hand.
 *
 *   UPPER(first, last, step, delta)  every step-th code point from first to last has its upper case delta away
 *   UPPER_MANY(point, a, b, c)       the upper case of point is these two or three (c = 0) code points
 *   UNPRINTABLE(first, last)         code points that Python's repr escapes
 */
"""


def upper_rows():
    ranges, many = [], []
    for point in range(0x110000):
        upper = chr(point).upper()
        if upper == chr(point):
            continue
        if len(upper) > 1:
            many.append((point, *[ord(c) for c in upper], *[0] * (3 - len(upper))))
            continue
        delta = ord(upper) - point
        last = ranges[-1] if ranges else None
        if last and last[3] == delta and point - last[1] <= 2 and last[2] in (0, point - last[1]):
            last[2] = point - last[1]
            last[1] = point
        else:
            ranges.append([point, point, 0, delta])
    return ranges, many


def unprintable_rows():
    rows = []
    for point in range(0x110000):
        if chr(point).isprintable():
            continue
        if rows and rows[-1][1] == point - 1:
            rows[-1][1] = point
        else:
            rows.append([point, point])
    return rows


def table():
    ranges, many = upper_rows()
    lines = [HEADER % VERSION]
    lines += ["UPPER(0x%X, 0x%X, %d, %d)\n" % (a, b, step or 1, delta) for a, b, step, delta in ranges]
    lines += ["UPPER_MANY(0x%X, 0x%X, 0x%X, 0x%X)\n" % row for row in many]
    lines += ["UNPRINTABLE(0x%X, 0x%X)\n" % tuple(row) for row in unprintable_rows()]
    return "".join(lines)


def main():
    if len(sys.argv) == 1:
        sys.stdout.write(table())
        return 0
    if unicodedata.unidata_version != VERSION:
        print("skipped: this Python knows Unicode", unicodedata.unidata_version)
        return 77
    with open(sys.argv[2], encoding="ascii") as file:
        same = file.read() == table()
    print("unicode.def", "is as printed" if same else "differs from what unicode_tables.py prints")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
