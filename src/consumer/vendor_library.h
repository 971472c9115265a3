/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries of the GPU's vendor, found at run time: nothing of ours links them, so that one
 * binary runs with and without them. A library is looked for, in this order,
 *
 *   1. among those that the process has loaded already (a framework's: two of a kind would clash),
 *   2. at the option's path,
 *   3. on the system: where the loader looks, then in a few folders more,
 *   4. in the packages `nvidia` of the Python environment: $VIRTUAL_ENV, $CONDA_PREFIX, the python3
 *      on the PATH, /opt/conda, /usr/local, /usr, ~/.local.
 *
 * What is found must have every symbol wanted and a version that its check accepts. A loaded
 * library, or the option's, that does not is an error; elsewhere it is passed over, with a warning.
 * A library that is taken stays loaded until the process ends: it has threads and exit handlers.
 */
#ifndef HEADRACE_CONSUMER_VENDOR_LIBRARY_H
#define HEADRACE_CONSUMER_VENDOR_LIBRARY_H

#include "common/err.h"
#include "common/limits.h"

enum { LIBRARY_SONAMES_MAX = 3, LIBRARY_VERSION_BYTES = 32 };

enum library_origin { LIBRARY_LOADED, LIBRARY_OPTION, LIBRARY_SYSTEM, LIBRARY_PYTHON };

/* Where a library was found, and which it is. */
struct library_found {
    enum library_origin origin;
    char path[PATH_BYTES_MAX];
    int version; /* in the vendor's own numbers: 12090, 22703; 0: it has none */
    char version_text[LIBRARY_VERSION_BYTES];
};

/* One function: its name, and where its pointer lies in the table. */
struct library_symbol {
    const char *name;
    size_t offset;
};

/* Sets the version's number and text, asked of the filled table; or says what would do. */
typedef enum status (*library_version_fn)(const void *table, struct library_found *found,
                                          struct err *err);

struct library_want {
    const char *name;                             /* "CUDA runtime" */
    const char *option;                           /* that names its path: "cuda-runtime" */
    const char *sonames[LIBRARY_SONAMES_MAX + 1]; /* best first, NULL ends */
    const char *folders; /* more of the system's, as glob(7) with braces; NULL: none */
    const char *python;  /* folder below site-packages/nvidia, likewise; NULL: not packaged */
    const char *install; /* what to do when it is missing */
    const struct library_symbol *symbols;
    size_t symbol_count;
    library_version_fn version;
};

/*
 * Fills the function pointers of *table, and *found; what else the table holds, the version's check
 * may look at. path: the option's, NULL or "" for none.
 * ERR_DEVICE: not found, or none fits; the message names the library, what is wrong and what to
 * install. On failure the pointers are undefined, and found->path is what did not fit, "" if
 * nothing was there.
 */
MUST_USE enum status library_open(const struct library_want *want, const char *path, void *table,
                                  struct library_found *found, struct err *err);

/* "NCCL 2.27.3: /usr/lib/libnccl.so.2 (system)" */
void library_describe(const struct library_want *want, const struct library_found *found, char *out,
                      size_t size);

#endif
