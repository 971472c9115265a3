/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON document, and with it a pipeline. What is accepted prints to a document that is accepted
 * and prints to itself; it is written as Python writes it, and every text in it may be a document
 * again.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/pipeline.h"
#include "common/python.h"
#include "fuzz/fuzz.h"

static char *print(const struct json *json)
{
    char *text = NULL;
    CHECK(json_print(json, &text, NULL) == OK && text != NULL);
    return text;
}

static void write_as_python(const struct json *json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out != NULL);
    CHECK(python_write_str(out, json, NULL) == OK);
    if (json_text(json) != NULL) {
        python_write_upper(out, json_text(json));
    }
    fclose(out);
    free(text);
}

static void try_pipeline(const char *text)
{
    struct pipeline first;
    struct pipeline second;
    struct err err = {0};
    if (pipeline_parse(text, &first, &err) != OK) {
        CHECK(err.status == ERR_CONFIG && err.message[0] != '\0');
        return;
    }
    CHECK(first.width > 0 && first.height > 0 && first.op_count > 0);
    CHECK(pipeline_parse(first.text, &second, &err) == OK);
    CHECK(strcmp(first.text, second.text) == 0);
}

static void use(const struct json *json)
{
    char *text = print(json);
    struct json *again = NULL;
    CHECK(json_parse(text, &again, NULL) == OK && again != NULL);
    char *text_again = print(again);
    CHECK(strcmp(text, text_again) == 0);
    write_as_python(json);
    try_pipeline(text);
    free(text_again);
    json_free(&again);
    if (json_kind(json) == JSON_TEXT && json_parse(json_text(json), &again, NULL) == OK) {
        free(print(again));
        json_free(&again);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *copy = malloc(count + 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, count);
    copy[count] = '\0';
    struct json *json = NULL;
    struct err err = {0};
    const enum status status = json_parse_bytes(copy, count, &json, &err);
    if (status == OK) {
        use(json);
        json_free(&json);
    } else {
        CHECK((status == ERR_DATA || status == ERR_CONFIG) && err.message[0] != '\0');
    }
    free(copy);
    return 0;
}
