// 8 MiB written and read back.
// calls: read write
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    static char block[1 << 16];
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    for (uint32_t i = 0; i < 128; i++) {
        for (size_t j = 0; j < sizeof block; j++) block[j] = (char)(i * 31 + j * 7);
        CHECK(write(fd, block, sizeof block) == sizeof block);
        if (i == 64) GUEST_POINT();
    }
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    uint32_t sum = 0;
    for (ssize_t got; (got = read(fd, block, 10007)) > 0;)
        for (ssize_t j = 0; j < got; j++) sum = sum * 16777619u + (uint8_t)block[j];
    SAY("sum %08x of %ld", sum, (long)lseek(fd, 0, SEEK_CUR));
    SUCCESS();
}
