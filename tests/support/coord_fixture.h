/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for the coordinator's tests, made by hand: two trainer hosts of two ranks (algo-2 and
 * algo-10) and two producer hosts (algo-1 and algo-3), or fewer.
 */
#ifndef HEADRACE_TESTS_SUPPORT_COORD_FIXTURE_H
#define HEADRACE_TESTS_SUPPORT_COORD_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "common/coord.h"

static inline void fixture_config(struct config *config)
{
    memset(config, 0, sizeof(*config));
    config->seed = 7;
    config->global_batch = 32;
    config->port = 17400;
    config->peer_timeout_s = 2;
    config->join_timeout_s = 100;
    snprintf(config->producer_failure, sizeof(config->producer_failure), "tolerate");
    config->stream_count = 1;
    struct stream_config *stream = &config->streams[0];
    snprintf(stream->name, sizeof(stream->name), "train");
    snprintf(stream->data, sizeof(stream->data), "pictures/\xC3\xA4 b");
    stream->shuffle = SHUFFLE_FULL;
    stream->last = LAST_DROP;
    snprintf(stream->pipeline.text, sizeof(stream->pipeline.text), "[{\"op\":\"decode\"}]");
}

static inline void fixture_cluster(struct cluster *cluster, struct cluster_host hosts[4])
{
    static const struct {
        const char *name;
        enum role role;
        int32_t trainer_index;
    } HOSTS[4] = {{"algo-1", ROLE_PRODUCER, -1},
                  {"algo-2", ROLE_TRAINER, 0},
                  {"algo-3", ROLE_PRODUCER, -1},
                  {"algo-10", ROLE_TRAINER, 1}};
    memset(cluster, 0, sizeof(*cluster));
    memset(hosts, 0, 4 * sizeof(*hosts));
    for (int i = 0; i < 4; i++) {
        snprintf(hosts[i].name, sizeof(hosts[i].name), "%s", HOSTS[i].name);
        hosts[i].role = HOSTS[i].role;
        hosts[i].trainer_index = HOSTS[i].trainer_index;
    }
    cluster->hosts = hosts;
    cluster->host_count = 4;
    cluster->current = 1;
    cluster->trainer_count = 2;
    cluster->producer_count = 2;
}

#endif
