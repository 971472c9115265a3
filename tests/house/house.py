#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The house test: rules of the code that no compiler checks, each a function below that yields "file:line: text".

usage: house.py SOURCE_DIR [--tests FILE]      FILE: the names that ctest knows, one a line
       house.py --self-test                    every rule must find its own bad example
"""
import os
import re
import sys
import tempfile

# Which folder may include which: the architecture as data.
DIRECTION = {
    "src/common": {"common"},
    "src/producer": {"producer", "common", "kernels"},
    "src/consumer": {"consumer", "common", "kernels"},
    "src/cli": {"cli", "producer", "consumer", "common", "kernels"},
    "kernels": {"kernels"},
}

ANYWHERE = {"common/base.h"}

# Vendor headers and the files (by the beginning of their path) that may include them.
VENDORS = {
    r"zmq\.h": ("src/common/net_zmq", "src/common/auth"),
    r"(cjson/)?cJSON\.h": ("src/common/json",),
    r"(jpeglib|jerror|turbojpeg)\.h": ("src/producer/image_jpeg", "src/cli/gen"),
    r"png\.h": ("src/producer/image_png",),
    r"(xxhash|xxh_x86dispatch)\.h": ("src/common/hash",),
    # cuda_api.h and nccl_api.h declare what is called; only kernels see the vendor's own.
    r"(cuda|nccl|nvml).*\.h": ("kernels/",),
}

# Files without clock, socket, thread, lock or allocation: they run in the simulator as they run in production.
PURE = ("src/common/plan.", "src/common/shuffle.", "src/common/rng.", "src/common/layout.", "src/common/digest.",
        "src/common/wire.", "src/common/msg", "src/common/hash.", "src/common/coord_state.", "src/consumer/sched",
        "src/producer/geometry.", "src/producer/op")
IMPURE_HEADERS = r"(pthread|time|sys/time|sys/socket|zmq|poll|stdatomic|common/clock|common/net|common/log|signal)\.h"
IMPURE_CALLS = r"\b(malloc|calloc|realloc|free|pthread_\w+|clock_\w+|time|nanosleep|usleep|getrandom|fopen|read|write)\s*\("

# Locks and atomics have few homes, so that what is shared can be read in one sitting.
SHARED = ("src/common/queue", "src/common/pool", "src/common/metrics", "src/common/log", "src/common/coord_client",
          "src/common/coord_server", "src/common/crash_record", "src/common/net_", "src/consumer/ring",
          "src/consumer/feed", "src/consumer/client", "src/producer/batch", "src/producer/work", "src/cli/",
          "src/consumer/coll_", "src/consumer/device_cuda", "src/producer/resize", "tests/")

BANNED = r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|strtok|alloca|system|popen|rand|srand|tmpnam)\s*\("

FILE_LINES = 700      # a file is one noun
FUNCTION_LINES = 100  # a function does one thing


def strip(text):
    """Comments and strings blanked out, lines kept."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def sources(root):
    for top in ("src", "kernels", "include", "tests", "examples"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()


def lines_of(text, pattern):
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(pattern, line)
        if match:
            yield number, match


def rule_licence(path, text):
    if not text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"):
        yield f"{path}:1: the first line is not the SPDX line"


def rule_opening_comment(path, text):
    head = text.split("\n", 3)
    if path.startswith(("src/", "kernels/")) and not (len(head) > 1 and head[1].startswith("/*")):
        yield f"{path}:2: no opening comment that says what the file is"


def rule_direction(path, text):
    for folder, allowed in DIRECTION.items():
        if path.startswith(folder + "/"):
            for number, match in lines_of(text, r'^\s*#\s*include\s+"((?:\w+/)?)([\w./]+)"'):
                if match.group(1).strip("/") not in allowed and match.group(1) + match.group(2) not in ANYWHERE:
                    yield f"{path}:{number}: {folder} may not include {match.group(1)}{match.group(2)}"


def rule_vendor_headers(path, text):
    if path.startswith("tests/"):
        return
    for pattern, homes in VENDORS.items():
        for number, match in lines_of(text, r"^\s*#\s*include\s+<(" + pattern + r")>"):
            if not path.startswith(homes):
                yield f"{path}:{number}: {match.group(1)} belongs in {', '.join(homes)} only"


def rule_pure(path, text):
    if not path.startswith(PURE):
        return
    for number, match in lines_of(text, r'^\s*#\s*include\s+[<"](' + IMPURE_HEADERS + r')[>"]'):
        yield f"{path}:{number}: a pure file includes {match.group(1)}"
    for number, match in lines_of(strip(text), IMPURE_CALLS):
        yield f"{path}:{number}: a pure file calls {match.group(1)}"


def rule_shared_state(path, text):
    if path.startswith(SHARED):
        return
    for number, match in lines_of(strip(text), r"\b(pthread_mutex_lock|pthread_cond_wait|_Atomic|atomic_\w+)\b"):
        yield f"{path}:{number}: {match.group(1)} outside the files that may share state"


def rule_banned(path, text):
    for number, match in lines_of(strip(text), BANNED):
        yield f"{path}:{number}: {match.group(1)} is banned"


def rule_typedef(path, text):
    if path.startswith("tests/"):
        return
    code = strip(text)
    for match in re.finditer(r"^\s*typedef\s([^;]*);", code, flags=re.M):
        if not re.search(r"vector_size|\(\s*\*?\s*\w+_fn\s*\)\s*\(", match.group(1)):
            number = code.count("\n", 0, match.start(1)) + 1
            yield f"{path}:{number}: typedef is for function types (name_fn) only"


def rule_file_length(path, text):
    count = text.count("\n")
    if count > FILE_LINES and not path.startswith("tests/"):
        yield f"{path}:{FILE_LINES}: {count} lines, more than {FILE_LINES}: two nouns?"


def rule_function_length(path, text):
    if path.startswith("tests/"):
        return
    begin = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "{":
            begin = number
        elif line == "}" and begin is not None:
            if number - begin > FUNCTION_LINES:
                yield f"{path}:{begin}: a function of {number - begin} lines, more than {FUNCTION_LINES}"
            begin = None


def rule_no_machine_paths(path, text):
    for number, match in lines_of(text, r"(/work/|/root/|/home/\w+)"):
        yield f"{path}:{number}: a path of somebody's machine: {match.group(1)}"


RULES = [value for name, value in sorted(globals().items()) if name.startswith("rule_")]


def check_promises(root, known):
    """tests/README.md names only tests that exist."""
    path = os.path.join(root, "tests/README.md")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|") or len(cells) < 2 or set(cells[0]) <= set("-: ") or cells[0] == "promise":
                continue
            names = re.findall(r"`(\w+)`", cells[1])
            if not names and "not yet" not in cells[1] and not cells[0].startswith("**"):
                yield f"tests/README.md:{number}: neither a test nor 'not yet'"
            for name in names:
                if name not in known:
                    yield f"tests/README.md:{number}: there is no test {name}"


BAD = {
    "rule_licence": ("src/common/x.c", "int x;\n"),
    "rule_opening_comment": ("src/common/x.c", "/* SPDX */\nint x;\n"),
    "rule_direction": ("src/producer/x.c", '#include "consumer/ring.h"\n'),
    "rule_vendor_headers": ("src/cli/x.c", "#include <zmq.h>\n"),
    "rule_pure": ("src/common/plan.c", "void f(void) { p = malloc(3); }\n"),
    "rule_shared_state": ("src/common/x.c", "static _Atomic int x;\n"),
    "rule_banned": ("src/common/x.c", "int f(void) { return atoi(s); }\n"),
    "rule_typedef": ("src/common/x.h", "typedef struct x x_t;\n"),
    "rule_file_length": ("src/common/x.c", "\n" * (FILE_LINES + 1)),
    "rule_function_length": ("src/common/x.c", "void f(void)\n{\n" + "\n" * (FUNCTION_LINES + 1) + "}\n"),
    "rule_no_machine_paths": ("src/common/x.c", 'f("/home/' + 'me/x");\n'),
}
GOOD = ("src/common/x.c", "/* SPDX-License-Identifier: Apache-2.0 */\n/* What it is. */\n"
        '#include "common/err.h"\ntypedef void (*done_fn)(int x);\n')


def self_test():
    for rule in RULES:
        path, text = BAD[rule.__name__]
        if not list(rule(path, text)):
            print(f"house: {rule.__name__} does not find its bad example")
            return 1
        if list(rule(*GOOD)):
            print(f"house: {rule.__name__} complains about the good example")
            return 1
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "tests"))
        with open(os.path.join(root, "tests/README.md"), "w", encoding="utf-8") as file:
            file.write("| promise | test |\n| - | - |\n| a | `test_a` |\n| b | `test_b` |\n| c | |\n| d | not yet |\n")
        if len(list(check_promises(root, {"test_a"}))) != 2:
            print("house: check_promises does not find its bad examples")
            return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1]
    found = [text for path, content in sources(root) for rule in RULES for text in rule(path, content)]
    if sys.argv[2:3] == ["--tests"]:
        with open(sys.argv[3], encoding="utf-8") as file:
            found += check_promises(root, set(file.read().split()))
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
