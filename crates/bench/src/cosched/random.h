/* The generator of the NAS parallel benchmarks: x(k+1) = a x(k) mod 2^46, with a = 5^13. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

#define RANDOM_A 1220703125u
#define RANDOM_SEED 314159265u
#define RANDOM_MASK ((1ull << 46) - 1)

/* Goes one step on. Gives a number between 0 and 1. */
static double random_next(uint64_t *state) {
    *state = *state * RANDOM_A & RANDOM_MASK;
    return *state * (1.0 / (1ull << 46));
}

/* Goes so many steps on at once. */
static void random_skip(uint64_t *state, uint64_t steps) {
    for (uint64_t factor = RANDOM_A; steps; steps >>= 1, factor = factor * factor & RANDOM_MASK)
        if (steps & 1) *state = *state * factor & RANDOM_MASK;
}

#endif
