#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The README's generated tables: from the option table, and from what the measuring commands wrote.

usage: readme.py SOURCE_DIR BINARY           exit code 1 when a table in README.md is not what its source says
       readme.py SOURCE_DIR BINARY --write   puts them there

A table stands between "<!-- table NAME -->" and "<!-- end -->". NAME: options (from `headrace --options`), or a file
docs/measurements/NAME.json: {"command", "machine", "data", "columns": [key, ...], "rows": [{key: value}, ...], "notes"}.
"""
import json
import os
import re
import subprocess
import sys


def cell(value):
    return f"{value:,.3g}" if isinstance(value, float) and value < 100 else (
        f"{value:,.0f}" if isinstance(value, (int, float)) else str(value))


def measured(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    columns = data["columns"]
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(cell(row.get(column, "")) for column in columns) + " |" for row in data["rows"]]
    lines += ["", f"`{data['command']}` on {data['machine']}; data: {data['data']}."]
    lines += [note for note in data.get("notes", [])]
    return "\n".join(lines)


def table(root, binary, name):
    if name == "options":
        return subprocess.run([binary, "--options"], check=True, capture_output=True, text=True).stdout.strip()
    return measured(os.path.join(root, "docs/measurements", name + ".json"))


def main():
    root, binary = sys.argv[1:3]
    path = os.path.join(root, "README.md")
    with open(path, encoding="utf-8") as file:
        old = file.read()
    new = re.sub(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)",
                 lambda m: m.group(1) + table(root, binary, m.group(2)) + "\n" + m.group(3), old, flags=re.S)
    if "--write" in sys.argv[3:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
        return 0
    if new != old:
        print("README.md: a generated table is not what its source says; run ./dev readme")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
