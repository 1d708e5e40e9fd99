// Asynchronous requests of the old kind.
// calls: io_setup io_submit io_getevents io_pgetevents io_destroy io_cancel
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    unsigned long context = 0;
    CHECK(RAW(io_setup, 4, &context) == 0);
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    static char text[] = "asynchronous", back[16];
    struct { uint64_t data; uint32_t key, flags; uint16_t opcode; int16_t prio; uint32_t fd; uint64_t buf, bytes; int64_t offset; uint64_t r; uint32_t f, e; } w = {.data = 1, .opcode = 1, .fd = fd, .buf = (uint64_t)text, .bytes = 12}, r = {.data = 2, .fd = fd, .buf = (uint64_t)back, .bytes = 12};
    void *list[1] = {&w};
    struct { uint64_t data, object; int64_t result, more; } event;
    CHECK(RAW(io_submit, context, 1, list) == 1 && RAW(io_getevents, context, 1, 1, &event, NULL) == 1 && event.result == 12);
    GUEST_POINT();
    list[0] = &r;
    CHECK(RAW(io_submit, context, 1, list) == 1 && RAW(io_pgetevents, context, 1, 1, &event, NULL, NULL) == 1 && event.data == 2);
    SAY("%s", back);
    CHECK(RAW(io_cancel, context, &r, &event) == -1 && RAW(io_destroy, context) == 0);
    FAILS(EINVAL, RAW(io_destroy, context));
    SUCCESS();
}
