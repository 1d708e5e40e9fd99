// Contexts of asynchronous I/O are the same wherever their process runs: numbers, completions that nobody has read yet, room for more.
// calls: io_setup io_submit io_getevents io_pgetevents io_destroy
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

typedef struct { uint64_t data; uint32_t key, rw; uint16_t opcode; int16_t priority; uint32_t fd; uint64_t buffer, bytes; int64_t offset; uint64_t reserved; uint32_t flags, counter; } Request;
typedef struct { uint64_t data, request; int64_t result, more; } Event;
enum { READ, WRITE, SYNC, POLL = 5 };

static unsigned long small, large;
static char text[8];

static long submit(unsigned long context, Request request) {
    Request *list[1] = {&request};
    return RAW(io_submit, context, 1, list);
}

static void *wait_for_one(void *result) {
    Event event;
    CHECK(RAW(io_getevents, large, 1, 1, &event, NULL) == 1);
    *(uint64_t *)result = event.data;
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(io_setup, 4, &small) == 0 && RAW(io_setup, 500, &large) == 0);
    int fd = open("f", O_CREAT | O_RDWR, 0600), pair[2], counter = eventfd(0, EFD_NONBLOCK);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (uint64_t n = 0; n < 20; n++)
        CHECK(submit(small, (Request){.data = n, .opcode = WRITE, .fd = fd, .buffer = (uint64_t)"x", .bytes = 1, .offset = n, .flags = 1, .counter = counter}) == 1);
    Event events[32];
    CHECK(RAW(io_getevents, small, 3, 3, events, NULL) == 3 && events[2].data == 2);
    uint64_t waited = 0;
    pthread_t waiter;
    CHECK(pthread_create(&waiter, NULL, wait_for_one, &waited) == 0);
    GUEST_POINT();
    uint64_t raised;
    CHECK(read(counter, &raised, 8) == 8);
    SAY("raised %lu", (unsigned long)raised);
    CHECK(submit(small, (Request){.data = 21, .opcode = READ, .fd = fd, .buffer = (uint64_t)text, .bytes = 8}) == 1);
    struct timespec none = {0};
    long n = RAW(io_pgetevents, small, 18, 32, events, NULL, NULL);
    SAY("%ld left, from %lu to %lu", n, (unsigned long)events[0].data, (unsigned long)events[n - 1].data);
    SAY("with results %ld and %ld", (long)events[0].result, (long)events[n - 1].result);
    CHECK(submit(small, (Request){.data = 20, .opcode = SYNC, .fd = fd}) == 1);
    CHECK(RAW(io_getevents, small, 1, 1, events, NULL) == 1 && events[0].data == 20);
    // All that there is room for, several times.
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 62; i++)
            CHECK(submit(small, (Request){.data = 7, .opcode = READ, .fd = fd, .buffer = (uint64_t)text, .bytes = 1}) == 1);
        for (int i = 0; i < 62; i++)
            CHECK(RAW(io_getevents, small, 1, 1, events, NULL) == 1 && events[0].data == 7 && events[0].result == 1);
    }
    CHECK(RAW(io_getevents, small, 0, 1, events, &none) == 0);
    // A socket that was made before the point.
    char got = 0;
    CHECK(submit(large, (Request){.data = 99, .opcode = POLL, .fd = pair[0], .buffer = POLLIN}) == 1);
    CHECK(write(pair[1], "s", 1) == 1 && pthread_join(waiter, NULL) == 0);
    CHECK(submit(large, (Request){.data = 98, .opcode = READ, .fd = pair[0], .buffer = (uint64_t)&got, .bytes = 1}) == 1);
    CHECK(RAW(io_getevents, large, 1, 1, events, NULL) == 1);
    SAY("waited for %lu, read %c", (unsigned long)waited, got);
    CHECK(RAW(io_destroy, small) == 0 && RAW(io_destroy, large) == 0);
    FAILS(EINVAL, RAW(io_destroy, small));
    SUCCESS();
}
