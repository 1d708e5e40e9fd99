/* 32 threads that fill a matrix, meet at barriers, pass a token round, and each have storage of their own. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 32, SIZE = 256, ROUNDS = 50 };
static double a[SIZE][SIZE], b[SIZE][SIZE];
static pthread_barrier_t barrier;
static sem_t token[THREADS];
static long passed;
static __thread long own;

static void *work(void *argument) {
    long me = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = me * SIZE / THREADS; i < (me + 1) * SIZE / THREADS; i++)
            for (int j = 0; j < SIZE; j++)
                b[i][j] = (a[(i + 1) % SIZE][j] + a[(i + SIZE - 1) % SIZE][j] + a[i][(j + 1) % SIZE]) / 3.0 + own % 2;
        pthread_barrier_wait(&barrier);
        for (int i = me * SIZE / THREADS; i < (me + 1) * SIZE / THREADS; i++)
            for (int j = 0; j < SIZE; j++) a[i][j] = b[i][j];
        pthread_barrier_wait(&barrier);
        sem_wait(&token[me]);
        passed++;
        own += passed % 7;
        sem_post(&token[(me + 1) % THREADS]);
    }
    return (void *)own;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) a[i][j] = (i * 31 + j * 17) % 101;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) sem_init(&token[i], 0, i == 0);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 2;
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    double total = 0;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) total += a[i][j];
    printf("%ld %ld %.9g\n", passed, sum, total);
    return 0;
}
