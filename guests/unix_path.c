// Sockets with a name in the file system: relative to the working directory, made with the umask, gone when they are unlinked.
// calls: socket bind listen connect accept getsockname sendto recvfrom
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(mkdir("d", 0755) == 0 && chdir("d") == 0);
    umask(027);
    struct sockaddr_un at = {AF_UNIX, "a.socket"}, name = {0};
    int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(ENOENT, connect(c, (void *)&at, sizeof at));
    CHECK(bind(s, (void *)&at, sizeof at) == 0);
    struct stat st;
    CHECK(stat("a.socket", &st) == 0 && S_ISSOCK(st.st_mode));
    SAY("mode %o", st.st_mode & 07777);
    FAILS(ECONNREFUSED, connect(c, (void *)&at, sizeof at));
    CHECK(listen(s, 1) == 0);
    socklen_t bytes = sizeof name;
    CHECK(getsockname(s, (void *)&name, &bytes) == 0);
    SAY("%s, %d bytes", name.sun_path, bytes);
    GUEST_POINT();
    CHECK(chdir("..") == 0);
    strcpy(at.sun_path, "d/a.socket");
    CHECK(connect(c, (void *)&at, sizeof at) == 0);
    bytes = sizeof name;
    int b = accept(s, (void *)&name, &bytes);
    CHECK(b >= 0 && bytes == 2 && name.sun_family == AF_UNIX);
    struct ucred who;
    bytes = sizeof who;
    CHECK(getsockopt(b, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.pid == getpid() && who.uid == getuid());
    char text[8] = {0};
    CHECK(send(c, "hello", 5, 0) == 5 && recv(b, text, 8, 0) == 5);
    SAY("%s", text);
    int other = socket(AF_UNIX, SOCK_DGRAM, 0);
    FAILS(EADDRINUSE, bind(other, (void *)&at, sizeof at));
    FAILS(EPROTOTYPE, connect(other, (void *)&at, sizeof at));
    strcpy(at.sun_path, "datagrams");
    CHECK(bind(other, (void *)&at, sizeof at) == 0);
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(sendto(sender, "by name", 7, 0, (void *)&at, sizeof at) == 7 && recv(other, text, 8, 0) == 7);
    SAY("%.7s", text);
    GUEST_POINT();
    CHECK(unlink("datagrams") == 0 && unlink("d/a.socket") == 0);
    FAILS(ENOENT, sendto(sender, "x", 1, 0, (void *)&at, sizeof at));
    SUCCESS();
}
