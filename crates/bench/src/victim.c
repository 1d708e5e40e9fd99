// A process that is moved. It reads the clock without a pause and keeps the longest gap. It writes
// its pages one after the other at a rate, each with a known number, and checks each page before it
// writes the page again.
// Arguments: bytes of memory, bytes written per second (-1: as fast as it can), threads, open files,
// eventfds, and a file whose content fills the memory repeatedly (random bytes without a file).
// SIGUSR1: prints the gap, nanoseconds. SIGTERM: checks all pages and ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };
static volatile sig_atomic_t asked, stop;
static void ask(int signal) { (void)signal; asked = 1; }
static void end(int signal) { (void)signal; stop = 1; }
static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static void *sleeps(void *none) { for (;;) pause(); return none; }

static uint64_t noise = 88172645463325252u;
static uint64_t next(void) { noise ^= noise << 13; noise ^= noise >> 7; return noise ^= noise << 17; }

// Fills the pages with the content of this file, repeated.
static void fill_from(const char *path, char *memory, int64_t pages) {
    int file = open(path, O_RDONLY);
    int64_t have = 0;
    ssize_t got = 0;
    while (have < pages * PAGE && (got = read(file, memory + have, pages * PAGE - have)) > 0) have += got;
    if (file < 0 || got < 0 || have < PAGE) exit(7);
    close(file);
    for (int64_t i = have / PAGE, from = 0; i < pages; i++, from++) memcpy(memory + i * PAGE, memory + from * PAGE, PAGE);
}

int main(int count, char **words) {
    if (count < 6) return 2;
    int64_t pages = atoll(words[1]) / PAGE, rate = atoll(words[2]);
    int threads = atoi(words[3]), files = atoi(words[4]), counters = atoi(words[5]);
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 << 10);
        if (pthread_create(&thread, &small, sleeps, 0)) return 3;
    }
    for (int i = 3; i < files; i++)
        if (open("/dev/null", O_RDWR) < 0) return 4;
    for (int i = 0; i < counters; i++)
        if (eventfd(i, 0) < 0) return 4;
    uint64_t *memory = mmap(0, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 5;
    // No two processes have the same pages, because pages that a node already has are not sent again.
    noise ^= (uint64_t)now_ns() << 20 ^ (uint64_t)getpid();
    if (count > 6) fill_from(words[6], (char *)memory, pages);
    else for (int64_t i = 0; i < pages * WORDS; i++) memory[i] = next();
    uint64_t *seen = mmap(0, (pages + 1) * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int64_t i = 0; i < pages; i++) memory[i * WORDS] = memory[i * WORDS + WORDS - 1] = seen[i] = 0;
    signal(SIGUSR1, ask);
    signal(SIGTERM, end);
    puts("ready"); fflush(stdout);
    int64_t page = 0, written = 0, longest = 0, begun = now_ns(), last = begun;
    while (!stop) {
        int64_t now = now_ns();
        if (asked) {
            asked = 0;
            printf("%lld\n", (long long)longest); fflush(stdout);
            longest = 0, last = now_ns();
            continue;
        }
        if (now - last > longest) longest = now - last;
        last = now;
        if (!pages || !rate) continue;
        // Writes that were missed during a freeze are not made up for.
        int64_t due = rate < 0 ? PAGE : (int64_t)((double)(now - begun) * rate / 1e9) - written;
        if (due > 1 << 20) begun = now, written = 0, due = 0;
        for (; due >= PAGE; due -= PAGE, written += PAGE) {
            uint64_t *at = memory + page * WORDS;
            if (at[0] != seen[page] || at[WORDS - 1] != seen[page]) { puts("stale"); fflush(stdout); return 6; }
            at[0] = at[WORDS - 1] = ++seen[page];
            if (++page == pages) page = 0;
        }
    }
    for (int64_t i = 0; i < pages; i++)
        if (memory[i * WORDS] != seen[i] || memory[i * WORDS + WORDS - 1] != seen[i]) { puts("stale"); return 6; }
    puts("whole");
    return 0;
}
