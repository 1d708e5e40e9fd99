// Large transfers: each call takes all that a blocking socket must.
// calls: sendto recvfrom writev readv sendmsg recvmsg sendfile splice
#include "socket.h"

enum { BYTES = 5 << 20 };
static unsigned char data[BYTES], got[BYTES];

static void *receive(void *fd) {
    size_t n = 0;
    for (ssize_t k; (k = n % 3 ? recv((int)(long)fd, got + n, BYTES - n, 0) : read((int)(long)fd, got + n, BYTES - n)) > 0;)
        n += k;
    return (void *)n;
}

static void check(const char *what, int b, ssize_t sent, pthread_t thread) {
    void *n;
    CHECK(shutdown(b, SHUT_WR) == 0 && pthread_join(thread, &n) == 0);
    CHECK(sent == BYTES && (size_t)n == BYTES && !memcmp(data, got, BYTES));
    memset(got, 0, BYTES);
    SAY("%s", what);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < BYTES; i++)
        data[i] = i * 7 ^ i >> 11;
    int file = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(write(file, data, BYTES) == BYTES);
    const char *ways[] = {"send", "write", "writev", "sendmsg", "sendfile", "splice"};
    for (int way = 0; way < 6; way++) {
        int a, b, p[2];
        tcp_pair(&a, &b);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, receive, (void *)(long)a) == 0);
        struct iovec v[3] = {{data, 100001}, {data + 100001, 7}, {data + 100008, BYTES - 100008}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
        ssize_t sent = 0, k;
        off_t from = 0;
        GUEST_POINT();
        switch (way) {
        case 0: sent = send(b, data, BYTES, 0); break;
        case 1: sent = write(b, data, BYTES); break;
        case 2: sent = writev(b, v, 3); break;
        case 3: sent = sendmsg(b, &m, 0); break;
        case 4:
            while (sent < BYTES && (k = sendfile(b, file, &from, BYTES - sent)) > 0)
                sent += k;
            if (sent < BYTES && errno == EINVAL && sent == 0)
                sent = write(b, data, BYTES);
            break;
        case 5:
            CHECK(pipe(p) == 0);
            while (sent < BYTES && (k = splice(file, &from, p[1], NULL, 65536, 0)) > 0)
                for (ssize_t n; k > 0; k -= n, sent += n)
                    CHECK((n = splice(p[0], NULL, b, NULL, k, 0)) > 0);
            close(p[0]), close(p[1]);
        }
        check(ways[way], b, sent, thread);
        CHECK(close(a) == 0 && close(b) == 0);
    }
    SUCCESS();
}
