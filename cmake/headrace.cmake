# SPDX-License-Identifier: Apache-2.0
# Compile options shared by every target of the project. Pixels must be the same on every machine,
# so contraction of floating-point expressions is off everywhere.
add_library(headrace_options INTERFACE)
target_compile_options(headrace_options INTERFACE
    -ffp-contract=off -fno-strict-aliasing -fno-common
    -Wall -Wextra -Wshadow -Wundef -Wvla -Wformat=2
    -Wpointer-arith -Wwrite-strings -Wno-unused-parameter
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-format-truncation>
    $<$<BOOL:${HEADRACE_WERROR}>:-Werror>)
target_compile_definitions(headrace_options INTERFACE
    _GNU_SOURCE HEADRACE_VERSION="${PROJECT_VERSION}")
target_include_directories(headrace_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
if(HEADRACE_SANITIZE)
    target_compile_options(headrace_options INTERFACE
        -fsanitize=${HEADRACE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(headrace_options INTERFACE -fsanitize=${HEADRACE_SANITIZE})
endif()
if(HEADRACE_FUZZ)
    target_compile_options(headrace_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
