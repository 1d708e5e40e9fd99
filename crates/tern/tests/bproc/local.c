/* A program in node-local mode: what is the node's own, and what is home's. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;
    char line[64] = "";
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1))
        perror("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int peer = accept(listener, NULL, NULL);
    if (read(peer, line, sizeof line) > 0)
        dprintf(peer, "heard %s", line);
    close(peer);
}

/* Calls about files, the network and the host, and one about processes, until it is killed. */
static void call_all_the_time(void) {
    struct utsname name;
    struct stat attributes;
    puts("calling");
    fflush(stdout);
    for (;;) {
        close(socket(AF_UNIX, SOCK_STREAM, 0));
        close(open("/tmp/of-node", O_RDONLY));
        stat("/tmp", &attributes);
        uname(&name);
        getppid();
        usleep(1000);
    }
}

int main(int count, char **words) {
    struct utsname name;
    int status = 0;
    if (count > 1 && !strcmp(words[1], "calls"))
        call_all_the_time();
    uname(&name);
    printf("%s %d %d\n", name.nodename, getpid(), getppid());
    FILE *file = fopen("/tmp/of-node", "w");
    fputs(name.nodename, file);
    fclose(file);
    if (fork() == 0)
        _exit(getppid() == atoi(words[1]) ? 5 : 6);
    wait(&status);
    printf("child %d parent %d\n", WEXITSTATUS(status), kill(getppid(), 0));
    serve();
    return 42;
}
