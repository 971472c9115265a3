#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tables of docs/PROTOCOL.md with the decoders: the same fields in the same order, of the same size, and every
offset in a table is the sum of what stands before it.

usage: protocol.py SOURCE_DIR
"""
import os
import re
import sys

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}

# Heading of the table, file, and its decoder with the functions that it calls in the middle, in order.
MESSAGES = [
    ("HELLO", "msg_hello.c", ["msg_get_hello"]),
    ("WELCOME", "msg_hello.c", ["msg_get_welcome"]),
    ("REJECT", "msg_hello.c", ["msg_get_reject"]),
    ("GRANT", "msg_grant.c", ["msg_get_grant"]),
    ("DATA", "msg_data.c", ["msg_get_data"]),
    ("NACK", "msg_grant.c", ["msg_get_nack"]),
    ("RETURN and CANCEL", "msg_grant.c", ["msg_get_lease"]),
    ("PING and PONG", "msg_control.c", ["msg_get_ping"]),
    ("LEAVE, DONE and BYE", "msg_control.c", ["msg_get_text"]),
    ("JOIN", "coord_msg.c", ["get_join"]),
    ("WELCOME and PONG", "coord_msg.c", ["get_welcome"]),
    ("REFUSE", "coord_msg.c", ["get_refuse"]),
    ("PING", "coord_msg.c", ["get_ping"]),
    ("REQUEST", "coord_msg.c", ["get_request"]),
    ("ANSWER", "coord_msg.c", ["get_answer"]),
    ("ROSTER", "coord_msg.c", ["get_roster"]),
    ("EVENT", "coord_msg.c", ["get_event"]),
]

# A read of a field: its kind and its name.
READ = re.compile(r'\bwire_get(8|16|32|64|_text|_bytes)(?:_in)?\(r, "(\w+)"|\bget_name\(r, "(\w+)"'
                  r'|\b(get_durations|get_roster_rank|get_roster_stream|get_value|get_buckets)\(r')


def function_body(text, name):
    found = re.search(r"^(?:static )?void %s\([^{]*?\)\n\{\n(.*?)^\}" % name, text, re.M | re.S)
    if found is None:
        raise SystemExit("protocol.py: no function %s" % name)
    return found.group(1)


def decoder_fields(text, name):
    """[(type, field)] in the order of reading; the bytes of a text or name have no size."""
    fields = []
    for size, field, named, called in READ.findall(function_body(text, name)):
        if called:
            fields += decoder_fields(text, called)
        elif named:
            fields.append(("name", named))
        elif size.isdigit():
            fields.append(("u" + size, field))
        else:
            fields.append(("bytes", field))
    return fields


def table_rows(document, heading, nth):
    """Rows (offset, type, field) of the nth section with that heading."""
    sections = re.findall(r"^### %s\n(.*?)(?=^##)" % re.escape(heading), document, re.M | re.S)
    if len(sections) <= nth:
        raise SystemExit("protocol.py: no section %s" % heading)
    rows = []
    for line in sections[nth].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| -"):
            continue
        if line.startswith("|") and len(cells) == 4 and cells[0] != "offset":
            rows.append((cells[0], cells[1], cells[2].lstrip("· ")))
    return rows


def check_message(document, source, heading, nth, functions):
    rows = table_rows(document, heading, nth)
    sum_of_sizes = 0
    for offset, kind, field in rows:
        if offset:
            if int(offset) != sum_of_sizes:
                yield "%s: %s is said to be at %s, but what stands before it has %d bytes" % (
                    heading, field, offset, sum_of_sizes)
            size = SIZES.get(kind, 0)
            if size and sum_of_sizes % size:
                yield "%s: %s lies at %d, no multiple of its size" % (heading, field, sum_of_sizes)
            sum_of_sizes += size
    written = [("bytes" if kind in ("text", "name", "bytes") else kind, field) for _, kind, field in rows if kind]
    read = [("bytes" if kind in ("name", "bytes") else kind, field)
            for function in functions for kind, field in decoder_fields(source, function)]
    if written != read:
        for place in range(max(len(written), len(read))):
            ours = written[place] if place < len(written) else None
            theirs = read[place] if place < len(read) else None
            if ours != theirs:
                yield "%s: the page says %s where the decoder reads %s" % (heading, ours, theirs)
                break


def main():
    root = sys.argv[1]
    with open(os.path.join(root, "docs", "PROTOCOL.md"), encoding="utf-8") as file:
        document = file.read()
    feed, coordinator = document.split("\n## Coordinator messages\n")
    faults = []
    fields = 0
    for heading, name, functions in MESSAGES:
        with open(os.path.join(root, "src", "common", name), encoding="utf-8") as file:
            source = file.read()
        part = coordinator if name.startswith("coord") else feed
        faults += check_message(part, source, heading, 0, functions)
        fields += sum(len(decoder_fields(source, function)) for function in functions)
    for fault in faults:
        print("docs/PROTOCOL.md: " + fault)
    print("%d messages, %d fields, %d differences" % (len(MESSAGES), fields, len(faults)))
    return 1 if faults or fields < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
