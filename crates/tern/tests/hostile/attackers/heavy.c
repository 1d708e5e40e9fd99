// Takes and keeps as many MiB of memory as its first argument says, then adds a line to the file of its second argument again and again, until it is killed.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words) {
    size_t bytes = strtoul(words[1], 0, 10) << 20;
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count != 3 || memory == MAP_FAILED) return 1;
    // No page is like another, nor full of zeros.
    for (size_t at = 0; at < bytes; at += 64) *(size_t *)(memory + at) = at * 2654435761u + (size_t)getpid();
    for (;;) {
        int file = open(words[2], O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (file < 0 || write(file, ".\n", 2) != 2) return 2;
        close(file);
        usleep(20000);
    }
}
