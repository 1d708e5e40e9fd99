/* Messages whose every byte can be checked: a header with sender, counter, size and check sum, and
 * a body that follows from sender and counter. */
#ifndef STAMP_H
#define STAMP_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct stamp {
    uint64_t counter;
    /* The last counter of all, or 0 while nobody knows it. */
    uint64_t last;
    uint64_t sum;
    uint32_t from, bytes;
};

static uint64_t stamp_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t stamp_seed(uint32_t from, uint64_t counter) {
    return (counter + 1) * 0x9e3779b97f4a7c15u ^ ((uint64_t)from + 1) << 32;
}

/* Writes a whole message; the buffer holds the header and `bytes` more. */
static void stamp_write(char *buffer, uint32_t from, uint64_t counter, uint64_t last, uint32_t bytes) {
    struct stamp stamp = {counter, last, 0, from, bytes};
    uint64_t state = stamp_seed(from, counter);
    char *body = buffer + sizeof stamp;
    for (uint32_t at = 0; at < bytes; at += 8) {
        uint64_t word = stamp_next(&state);
        memcpy(body + at, &word, bytes - at < 8 ? bytes - at : 8);
        stamp.sum += word;
    }
    memcpy(buffer, &stamp, sizeof stamp);
}

/* Checks every byte of a message. Gives NULL, or says what is wrong. */
static const char *stamp_wrong(const char *buffer, uint32_t from, uint64_t counter, uint32_t bytes) {
    static char why[200];
    struct stamp stamp;
    memcpy(&stamp, buffer, sizeof stamp);
    if (stamp.from != from || stamp.counter != counter || stamp.bytes != bytes) {
        snprintf(why, sizeof why, "message %llu of %u with %u bytes came, not %llu of %u with %u",
                 (unsigned long long)stamp.counter, stamp.from, stamp.bytes, (unsigned long long)counter, from, bytes);
        return why;
    }
    uint64_t state = stamp_seed(from, counter), sum = 0;
    const char *body = buffer + sizeof stamp;
    for (uint32_t at = 0; at < bytes; at += 8) {
        uint64_t word = stamp_next(&state);
        if (memcmp(body + at, &word, bytes - at < 8 ? bytes - at : 8)) {
            snprintf(why, sizeof why, "message %llu of %u: a byte from %u on is wrong", (unsigned long long)counter, from, at);
            return why;
        }
        sum += word;
    }
    return sum == stamp.sum ? NULL : "the check sum is wrong";
}

/* The sizes of messages in turn, from a list as 1,4096,65536. */
struct sizes {
    uint32_t of[16];
    int count;
    uint32_t most;
};

static struct sizes sizes_of(const char *list) {
    struct sizes sizes = {{0}, 0, 0};
    for (char *at = strdup(list); at && *at && sizes.count < 16;) {
        uint32_t bytes = strtoul(at, &at, 10);
        sizes.of[sizes.count++] = bytes;
        if (bytes > sizes.most) sizes.most = bytes;
        if (*at == ',') at++;
    }
    return sizes;
}

static uint32_t size_at(const struct sizes *sizes, uint64_t counter) { return sizes->of[counter % sizes->count]; }

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Writes this process' number to the file `task.INDEX`. */
static void tell_pid(int index) {
    char name[32], draft[32];
    snprintf(name, sizeof name, "task.%d", index);
    snprintf(draft, sizeof draft, "draft.%d", index);
    FILE *file = fopen(draft, "w");
    if (!file) { perror(draft); exit(4); }
    fprintf(file, "%d\n", getpid());
    fclose(file);
    rename(draft, name);
}

/* Waits while there is a file `hold`: tasks are moved once they have connected. */
static void await_release(void) {
    while (!access("hold", F_OK)) usleep(10000);
}

/* Tells when the ring ends: after `rounds` that are timed and one before them, which connects, or some rounds after there is a file `end`, so that all
 * tasks have heard of it by then. */
static uint64_t last_round(uint64_t round, uint64_t rounds, int size) {
    if (rounds) return rounds + 1;
    return access("end", F_OK) ? 0 : round + 2 * size;
}

/* Writes how far a ring is to the file `rounds`. */
static void tell_round(uint64_t round) {
    static int fd = -1;
    if (fd < 0) fd = open("rounds", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    char line[32];
    int length = snprintf(line, sizeof line, "%-12llu\n", (unsigned long long)round);
    if (pwrite(fd, line, length, 0) != length) perror("rounds");
}

#endif
