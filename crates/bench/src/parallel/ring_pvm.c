/* ring_pvm TASKS ROUTE SIZES ROUNDS: a ring of PVM tasks. In each round each task sends a message to
 * its right and takes one from its left.
 *
 * ROUTE is `direct` (from task to task) or `daemon` (through the daemons). The sizes of messages are
 * taken in turn. Without ROUNDS (0) the ring goes on until there is a file `end`, and each byte is
 * checked; else it is timed. All tasks work in the directory in which the first was started. */
#include "stamp.h"
#include <pvm3.h>

enum { RING = 1, MESSAGE, DONE, EXITED };

static void failed(const char *what, int code) {
    fprintf(stderr, "%s: PVM error %d\n", what, code);
    pvm_exit();
    exit(3);
}

static int must(const char *what, int code) {
    if (code < 0) failed(what, code);
    return code;
}

/* One task of the ring. The first argument is the directory, then those of the whole follow. */
static int task(char **argv) {
    int parent = pvm_parent(), size = atoi(argv[2]), index, tids[64];
    uint64_t rounds = strtoull(argv[5], NULL, 10);
    struct sizes sizes = sizes_of(argv[4]);
    if (chdir(argv[1])) { perror(argv[1]); exit(4); }
    must("route", pvm_setopt(PvmRoute, strcmp(argv[3], "direct") ? PvmDontRoute : PvmRouteDirect));
    must("ring", pvm_recv(parent, RING));
    pvm_upkint(&index, 1, 1);
    pvm_upkint(tids, size, 1);
    tell_pid(index);
    int right = tids[(index + 1) % size], left_index = (index + size - 1) % size, left = tids[left_index];
    char *buffer = malloc(sizes.most + sizeof(struct stamp));
    uint64_t last = 0, bytes_sent = 0;
    double begun = seconds();
    for (uint64_t round = 1; !last || round <= last; round++) {
        uint32_t bytes = size_at(&sizes, round), whole = bytes + sizeof(struct stamp);
        if (rounds && round == 2) {
            await_release();
            begun = seconds();
        }
        if (!last && !index) last = last_round(round, rounds, size);
        if (rounds && round > 1) {
            struct stamp stamp = {round, last, 0, index, bytes};
            memcpy(buffer, &stamp, sizeof stamp);
        } else {
            stamp_write(buffer, index, round, last, bytes);
        }
        pvm_initsend(PvmDataRaw);
        pvm_pkbyte(buffer, whole, 1);
        must("send", pvm_send(right, MESSAGE));
        bytes_sent += whole;
        must("receive", pvm_recv(left, MESSAGE));
        must("unpack", pvm_upkbyte(buffer, whole, 1));
        const char *wrong = rounds ? NULL : stamp_wrong(buffer, left_index, round, bytes);
        if (wrong) {
            fprintf(stderr, "task %d: %s\n", index, wrong);
            exit(5);
        }
        struct stamp stamp;
        memcpy(&stamp, buffer, sizeof stamp);
        if (!last) last = stamp.last;
        if (!index && !rounds) tell_round(round);
    }
    double took = seconds() - begun, done[3] = {rounds ? rounds : last, bytes_sent, took};
    pvm_initsend(PvmDataRaw);
    pvm_pkint(&index, 1, 1);
    pvm_pkdouble(done, 3, 1);
    must("report", pvm_send(parent, DONE));
    /* The other side of a direct route must have all before this task ends. */
    must("end", pvm_recv(parent, RING));
    pvm_exit();
    return 0;
}

/* Starts all tasks, and waits for their reports. */
static int first(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "ring_pvm TASKS ROUTE SIZES ROUNDS\n"); return 2; }
    int size = atoi(argv[1]), tids[64];
    char here[4096], self[4096] = {0};
    if (!getcwd(here, sizeof here) || readlink("/proc/self/exe", self, sizeof self - 1) < 0) { perror("path"); return 4; }
    char *words[] = {here, argv[1], argv[2], argv[3], argv[4], NULL};
    must("enrol", pvm_mytid());
    int begun = pvm_spawn(self, words, PvmTaskDefault, "", size, tids);
    if (begun != size) {
        fprintf(stderr, "%d of %d tasks were started\n", begun, size);
        for (int i = begun < 0 ? 0 : begun; i < size; i++) fprintf(stderr, "task %d: PVM error %d\n", i, tids[i]);
        pvm_exit();
        return 3;
    }
    must("notify", pvm_notify(PvmTaskExit, EXITED, size, tids));
    for (int i = 0; i < size; i++) {
        pvm_initsend(PvmDataRaw);
        pvm_pkint(&i, 1, 1);
        pvm_pkint(tids, size, 1);
        must("send", pvm_send(tids[i], RING));
    }
    double rounds = 0, bytes_sent = 0, longest = 0;
    for (int heard = 0; heard < size; heard++) {
        int bytes, tag, from, index;
        double done[3];
        pvm_bufinfo(must("report", pvm_recv(-1, -1)), &bytes, &tag, &from);
        if (tag != DONE) {
            fprintf(stderr, "a task ended too early\n");
            pvm_exit();
            return 3;
        }
        pvm_upkint(&index, 1, 1);
        pvm_upkdouble(done, 3, 1);
        rounds = done[0];
        bytes_sent += done[1];
        if (done[2] > longest) longest = done[2];
    }
    pvm_initsend(PvmDataRaw);
    pvm_mcast(tids, size, RING);
    printf("all right: %.0f rounds, %.0f bytes, %.6f s\n", rounds, bytes_sent, longest);
    pvm_exit();
    return 0;
}

int main(int argc, char **argv) {
    int parent = (must("enrol", pvm_mytid()), pvm_parent());
    return parent == PvmNoParent || parent == PvmParentNotSet ? first(argc, argv) : task(argv);
}
