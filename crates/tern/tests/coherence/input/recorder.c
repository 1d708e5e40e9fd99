/* Writes numbered records by turns to four files and, each seventh, to a new file of its own. Now
   and then it syncs all four and prints the number of the last record. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    int files[4];
    char name[32], record[32];
    long last = count > 1 ? atol(words[1]) : 1 << 30;
    for (int n = 0; n < 4; n++) {
        sprintf(name, "log%d", n);
        files[n] = open(name, O_CREAT | O_WRONLY | (n % 2 ? O_APPEND : 0), 0644);
    }
    for (long k = 0; k < last; k++) {
        int bytes = sprintf(record, "%ld\n", k);
        if (k % 7 == 0) {
            sprintf(name, "own%ld", k);
            int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
            if (write(file, record, bytes) != bytes || close(file)) return 1;
        } else if (write(files[k % 4], record, bytes) != bytes) return 1;
        if (k % 100 == 99) {
            for (int n = 0; n < 4; n++) if (fsync(files[n])) return 1;
            printf("%ld\n", k);
            fflush(stdout);
        }
    }
    return 0;
}
