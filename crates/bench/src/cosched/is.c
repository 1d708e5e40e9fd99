/* is CLASS REPEATS TASKS: the kernel IS (integer sort) of the NAS parallel benchmarks, by their
 * specification (D. Bailey and others, RNR-94-007, section 2.3.5): N keys, of a distribution like a
 * bell, are ranked ten times, with two keys changed each time; ranks of five keys are known. */
#include "comm.h"
#include "random.h"

enum { ITERATIONS = 10, KNOWN = 5, BUCKETS_LOG = 10, BUCKETS = 1 << BUCKETS_LOG };

/* A class: its size, and the ranks that are known. The first `rising` ranks rise with the iterations,
 * counted from `rise_from`; the others fall, counted from `fall_from`. */
static const struct class {
    char name;
    int keys_log, most_log, rising, rise_from, fall_from;
    uint32_t index[KNOWN], rank[KNOWN];
} CLASSES[] = {
    {'S', 16, 11, 3, 0, 0, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}},
    {'W', 20, 16, 2, 2, 0, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}},
    {'A', 23, 19, 3, 1, 1, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}},
};

static const struct class *class;
/* The keys of this task, those that it ranks, and the number of keys below each of its values. */
static uint32_t *keys, *mine, *counts;
static size_t own_count, mine_count;
/* The values that this task ranks, and the number of keys of lower tasks. */
static uint32_t first_value, end_value;
static uint64_t lower_keys;

static void make_keys(void) {
    uint64_t state = RANDOM_SEED;
    random_skip(&state, 4ull * own_count * comm_rank);
    double scale = (1 << class->most_log) / 4;
    for (size_t at = 0; at < own_count; at++) {
        double sum = random_next(&state);
        for (int n = 1; n < 4; n++) sum += random_next(&state);
        keys[at] = (uint32_t)(scale * sum);
    }
}

/* Gives the values of the known keys to all tasks. */
static void known_values(double *values) {
    for (int n = 0; n < KNOWN; n++) {
        size_t at = class->index[n] - comm_rank * own_count;
        values[n] = class->index[n] / own_count == (size_t)comm_rank ? keys[at] : 0;
    }
    comm_sum(values, KNOWN);
}

/* Sends each task the keys that it ranks: whole buckets of values, as evenly as these allow. */
static void distribute(void) {
    static double all[BUCKETS], own[BUCKETS];
    int shift = class->most_log - BUCKETS_LOG;
    memset(own, 0, sizeof own);
    for (size_t at = 0; at < own_count; at++) own[keys[at] >> shift]++;
    memcpy(all, own, sizeof all);
    comm_sum(all, BUCKETS);
    /* Where the keys of each bucket go, and how many go to each task. */
    static uint8_t task_of[BUCKETS];
    size_t starts[COMM_TASKS_MAX + 1] = {0}, counts_to[COMM_TASKS_MAX] = {0};
    double total = (double)own_count * comm_size, below = 0;
    lower_keys = 0;
    first_value = end_value = 0;
    for (int bucket = 0, task = 0; bucket < BUCKETS; bucket++) {
        if (below >= total * (task + 1) / comm_size && task < comm_size - 1) {
            task++;
            if (task == comm_rank) first_value = (uint32_t)bucket << shift, lower_keys = (uint64_t)below;
        }
        task_of[bucket] = task;
        counts_to[task] += (size_t)own[bucket];
        below += all[bucket];
        if (task == comm_rank) end_value = (uint32_t)(bucket + 1) << shift;
    }
    for (int task = 0; task < comm_size; task++) starts[task + 1] = starts[task] + counts_to[task];
    size_t next[COMM_TASKS_MAX];
    memcpy(next, starts, sizeof next);
    static uint32_t *sorted;
    if (!sorted) sorted = malloc(own_count * sizeof *sorted);
    for (size_t at = 0; at < own_count; at++) sorted[next[task_of[keys[at] >> shift]]++] = keys[at];
    mine_count = counts_to[comm_rank];
    memcpy(mine, sorted + starts[comm_rank], mine_count * sizeof *mine);
    for (int step = 1; step < comm_size; step++) {
        int to = (comm_rank + step) % comm_size, from = (comm_rank + comm_size - step) % comm_size;
        uint64_t out = counts_to[to], in;
        comm_exchange(to, &out, sizeof out, from, &in, sizeof in);
        comm_exchange(to, sorted + starts[to], out * sizeof *sorted, from, mine + mine_count, in * sizeof *mine);
        mine_count += in;
    }
}

/* Ranks all keys once. Gives how many of the known ranks are right. */
static int rank_keys(int iteration) {
    if (!comm_rank) {
        keys[iteration] = iteration;
        keys[iteration + ITERATIONS] = (1u << class->most_log) - iteration;
    }
    double known[KNOWN], right = 0;
    known_values(known);
    distribute();
    size_t values = end_value > first_value ? end_value - first_value : 0;
    memset(counts, 0, (values + 2) * sizeof *counts);
    for (size_t at = 0; at < mine_count; at++) counts[mine[at] - first_value + 1]++;
    for (size_t at = 1; at <= values; at++) counts[at] += counts[at - 1];
    for (int n = 0; n < KNOWN; n++) {
        uint32_t value = (uint32_t)known[n];
        int change = n < class->rising ? iteration - class->rise_from : class->fall_from - iteration;
        if (value >= first_value && value < end_value)
            right += lower_keys + counts[value - first_value] == class->rank[n] + (uint64_t)(int64_t)change;
    }
    comm_sum(&right, 1);
    return (int)right;
}

/* Tells whether the ranks of the last iteration order all keys, and none was lost. */
static int is_sorted(void) {
    double sums[2] = {0, mine_count};
    for (size_t at = 0; at < mine_count; at++) sums[0] += mine[at] < first_value || mine[at] >= end_value;
    comm_sum(sums, 2);
    return sums[0] == 0 && sums[1] == (double)own_count * comm_size;
}

int main(int argc, char **argv) {
    comm_begin(&argc, &argv);
    for (size_t n = 0; n < sizeof CLASSES / sizeof *CLASSES; n++)
        if (CLASSES[n].name == *argv[1]) class = &CLASSES[n];
    if (!class) return 2;
    size_t all = (size_t)1 << class->keys_log;
    own_count = all / comm_size;
    if (own_count * comm_size != all) return 2;
    keys = malloc(own_count * sizeof *keys);
    mine = malloc(all * sizeof *mine);
    counts = malloc((((size_t)1 << class->most_log) + 2) * sizeof *counts);
    int repeats = atoi(argv[2]), right = 0;
    double took = 0;
    for (int repeat = 0; repeat < repeats; repeat++) {
        make_keys();
        rank_keys(1);
        comm_barrier();
        double begun = comm_seconds();
        for (int iteration = 1; iteration <= ITERATIONS; iteration++) right += rank_keys(iteration);
        took += comm_seconds() - begun;
        if (!is_sorted()) right = -1000000;
    }
    return comm_report(right == repeats * ITERATIONS * KNOWN, took);
}
