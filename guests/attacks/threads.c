// As many threads as it can get: not more than 20000.
#include "attack.h"

static void *wait_for_end(void *arg) {
    for (;;) pause();
    return arg;
}

int main(void) {
    guard();
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    int made = 0;
    pthread_t t;
    while (made < 20000 && pthread_create(&t, &small, wait_for_end, NULL) == 0) made++;
    attempt("20000 threads", made < 20000);
    OVER();
}
