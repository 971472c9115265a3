#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A failing test must make .ci/run fail, and nothing else may: the real .ci/run and dev are run on a project of one
# file, once with a test that fails and once with one that passes.
# usage: ci_verdict.sh SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
log=$work/log

make_project() { # COMMAND OF ITS ONLY TEST
    rm -rf "$work/project"
    mkdir -p "$work/project/src/common" "$work/project/kernels" "$work/project/tests/house"
    cd "$work/project"
    cp -R "$source/dev" "$source/.ci" "$source/.clang-format" "$source/.clang-tidy" "$source/CMakePresets.json" .
    cp "$source/tests/house/house.py" tests/house/
    printf '| promise | test |\n| - | - |\n| one test decides | `only` |\n' >tests/README.md
    printf '/* SPDX-License-Identifier: Apache-2.0 */\n/* A program of nothing. */\nint main(void)\n{\n    return 0;\n}\n' \
        >src/common/main.c
    cat >CMakeLists.txt <<EOF
cmake_minimum_required(VERSION 3.25)
project(verdict LANGUAGES C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
enable_testing()
add_executable(main src/common/main.c)
add_test(NAME only COMMAND $1)
set_tests_properties(only PROPERTIES LABELS unit)
EOF
}

make_project false
if sh .ci/run >"$log" 2>&1 </dev/null; then
    cat "$log"
    echo "FAILED: .ci/run passed although a test fails"
    exit 1
fi
if ! grep -q 'tests failed out of' "$log"; then
    cat "$log"
    echo "FAILED: .ci/run failed for another reason than its test"
    exit 1
fi
make_project true
if ! sh .ci/run >"$log" 2>&1 </dev/null; then
    cat "$log"
    echo "FAILED: .ci/run failed although the test passes"
    exit 1
fi
if ! tail -n 15 "$log" | grep -q '100% tests passed'; then
    cat "$log"
    echo "FAILED: .ci/run does not end with the runner's summary"
    exit 1
fi
echo "a failing test fails .ci/run; a passing one passes"
