/* mg CLASS REPEATS TASKS: the kernel MG (multigrid) of the NAS parallel benchmarks, by their
 * specification (D. Bailey and others, RNR-94-007, section 2.3.2): four V-cycles for the Poisson
 * equation on a periodic cube; the norm of the last residual is known.
 *
 * Planes are spread over the tasks. A grid of less than two planes for each task is kept whole by all
 * of them. */
#include "comm.h"
#include "random.h"
#include <math.h>

enum { ITERATIONS = 4, CHARGES = 10, LEVELS_MAX = 10 };

static const struct class {
    char name;
    int levels;
    double norm;
} CLASSES[] = {{'S', 5, 0.5307707005734e-04}, {'W', 7, 0.6467329375339e-05}, {'A', 8, 0.2433365309069e-05}};

/* A grid with one more point at either end of each axis. `first` planes lie before those of this task. */
struct grid {
    int edge, planes, first;
    double *u, *r;
};

static struct grid grids[LEVELS_MAX];
static double *charges;

#define ROW(grid, plane, row) (((size_t)(plane) * ((grid)->edge + 2) + (row)) * ((grid)->edge + 2))

static size_t points(const struct grid *grid) { return ROW(grid, grid->planes + 2, 0); }

static void zero(const struct grid *grid, double *of) { memset(of, 0, points(grid) * sizeof *of); }

static int is_spread(const struct grid *grid) { return grid->planes < grid->edge; }

/* Fills the outermost points from the other side, and from the neighbours. */
static void wrap(const struct grid *grid, double *of) {
    int edge = grid->edge, planes = grid->planes;
    size_t bytes = ROW(grid, 1, 0) * sizeof *of;
    for (int k = 1; k <= planes; k++) {
        for (int j = 1; j <= edge; j++) {
            double *row = of + ROW(grid, k, j);
            row[0] = row[edge];
            row[edge + 1] = row[1];
        }
        memcpy(of + ROW(grid, k, 0), of + ROW(grid, k, edge), bytes / (edge + 2));
        memcpy(of + ROW(grid, k, edge + 1), of + ROW(grid, k, 1), bytes / (edge + 2));
    }
    double *low = of, *first = of + ROW(grid, 1, 0), *last = of + ROW(grid, planes, 0), *high = of + ROW(grid, planes + 1, 0);
    if (!is_spread(grid)) {
        memcpy(low, last, bytes);
        memcpy(high, first, bytes);
        return;
    }
    int before = (comm_rank + comm_size - 1) % comm_size, after = (comm_rank + 1) % comm_size;
    comm_exchange(after, last, bytes, before, low, bytes);
    comm_exchange(before, first, bytes, after, high, bytes);
}

/* Sums a row and its neighbours: `near` gets the four next to it, `far` the four diagonal ones. */
static void neighbours(const struct grid *grid, const double *of, int k, int j, double *near, double *far) {
    const double *a = of + ROW(grid, k, j - 1), *b = of + ROW(grid, k, j + 1);
    const double *c = of + ROW(grid, k - 1, j), *d = of + ROW(grid, k + 1, j);
    const double *e = of + ROW(grid, k - 1, j - 1), *f = of + ROW(grid, k - 1, j + 1);
    const double *g = of + ROW(grid, k + 1, j - 1), *h = of + ROW(grid, k + 1, j + 1);
    for (int i = 0; i < grid->edge + 2; i++) {
        near[i] = a[i] + b[i] + c[i] + d[i];
        far[i] = e[i] + f[i] + g[i] + h[i];
    }
}

/* r = v - A u */
static void residual(const struct grid *grid, const double *u, const double *v, double *r) {
    double near[grid->edge + 2], far[grid->edge + 2];
    for (int k = 1; k <= grid->planes; k++)
        for (int j = 1; j <= grid->edge; j++) {
            neighbours(grid, u, k, j, near, far);
            size_t row = ROW(grid, k, j);
            for (int i = 1; i <= grid->edge; i++)
                r[row + i] = v[row + i] + 8.0 / 3.0 * u[row + i] - 1.0 / 6.0 * (far[i] + near[i - 1] + near[i + 1]) -
                             1.0 / 12.0 * (far[i - 1] + far[i + 1]);
        }
    wrap(grid, r);
}

/* u = u + S r */
static void smooth(const struct grid *grid, const double *r, double *u) {
    double near[grid->edge + 2], far[grid->edge + 2];
    for (int k = 1; k <= grid->planes; k++)
        for (int j = 1; j <= grid->edge; j++) {
            neighbours(grid, r, k, j, near, far);
            size_t row = ROW(grid, k, j);
            for (int i = 1; i <= grid->edge; i++)
                u[row + i] += -3.0 / 8.0 * r[row + i] + 1.0 / 32.0 * (r[row + i - 1] + r[row + i + 1] + near[i]) -
                              1.0 / 64.0 * (far[i] + near[i - 1] + near[i + 1]);
        }
    wrap(grid, u);
}

/* Gives all tasks all planes of a grid that each has a part of. */
static void gather(const struct grid *grid, double *of, int first, int count) {
    size_t bytes = ROW(grid, count, 0) * sizeof *of;
    for (int step = 1; step < comm_size; step++) {
        int to = (comm_rank + step) % comm_size, from = (comm_rank + comm_size - step) % comm_size;
        comm_exchange(to, of + ROW(grid, first + 1, 0), bytes, from, of + ROW(grid, from * count + 1, 0), bytes);
    }
}

/* Projects the residual of a grid on the next coarser one. */
static void project(const struct grid *fine, const struct grid *coarse) {
    double near[fine->edge + 2], far[fine->edge + 2];
    int is_cut = is_spread(fine) && !is_spread(coarse);
    int count = is_cut ? fine->planes / 2 : coarse->planes, shift = is_cut ? fine->first / 2 : 0;
    const double *r = fine->r;
    for (int k = 1; k <= count; k++)
        for (int j = 1; j <= coarse->edge; j++) {
            neighbours(fine, r, 2 * k, 2 * j, near, far);
            const double *row = r + ROW(fine, 2 * k, 2 * j);
            double *to = coarse->r + ROW(coarse, k + shift, j);
            for (int i = 1; i <= coarse->edge; i++) {
                int at = 2 * i;
                to[i] = 0.5 * row[at] + 0.25 * (row[at - 1] + row[at + 1] + near[at]) +
                        0.125 * (far[at] + near[at - 1] + near[at + 1]) + 0.0625 * (far[at - 1] + far[at + 1]);
            }
        }
    if (is_cut) gather(coarse, coarse->r, shift, count);
    wrap(coarse, coarse->r);
}

/* Adds the solution of a grid to the next finer one. */
static void interpolate(const struct grid *coarse, const struct grid *fine) {
    double line[coarse->edge + 2];
    for (int k = 0; k < fine->planes + 2; k++) {
        int plane = (fine->first + k) / 2 - coarse->first, next_plane = plane + (fine->first + k) % 2;
        for (int j = 0; j < fine->edge + 2; j++) {
            int at = j / 2, next = at + j % 2;
            const double *a = coarse->u + ROW(coarse, plane, at), *b = coarse->u + ROW(coarse, plane, next);
            const double *c = coarse->u + ROW(coarse, next_plane, at), *d = coarse->u + ROW(coarse, next_plane, next);
            for (int i = 0; i < coarse->edge + 2; i++) line[i] = 0.25 * (a[i] + b[i] + c[i] + d[i]);
            double *to = fine->u + ROW(fine, k, j);
            for (int i = 0; i <= coarse->edge; i++) {
                to[2 * i] += line[i];
                to[2 * i + 1] += 0.5 * (line[i] + line[i + 1]);
            }
        }
    }
}

static void cycle(int levels) {
    const struct grid *top = &grids[levels - 1];
    for (int n = levels - 1; n > 0; n--) project(&grids[n], &grids[n - 1]);
    zero(&grids[0], grids[0].u);
    smooth(&grids[0], grids[0].r, grids[0].u);
    for (int n = 1; n < levels - 1; n++) {
        const struct grid *grid = &grids[n];
        zero(grid, grid->u);
        interpolate(&grids[n - 1], grid);
        residual(grid, grid->u, grid->r, grid->r);
        smooth(grid, grid->r, grid->u);
    }
    interpolate(&grids[levels - 2], top);
    residual(top, top->u, charges, top->r);
    smooth(top, top->r, top->u);
}

static double norm(const struct grid *grid) {
    double sum = 0;
    for (int k = 1; k <= grid->planes; k++)
        for (int j = 1; j <= grid->edge; j++) {
            const double *row = grid->r + ROW(grid, k, j);
            for (int i = 1; i <= grid->edge; i++) sum += row[i] * row[i];
        }
    comm_sum(&sum, 1);
    return sqrt(sum / ((double)grid->edge * grid->edge * grid->edge));
}

/* A point with its random number, times 1 or -1, so that the largest are looked for. */
struct extreme {
    double value;
    int64_t number;
};

/* Keeps the ten largest. */
static void keep(struct extreme *most, struct extreme new) {
    for (int n = 0; n < CHARGES; n++)
        if (new.value > most[n].value) {
            struct extreme other = most[n];
            most[n] = new;
            new = other;
        }
}

/* Puts 1 where the ten largest of random numbers are, and -1 where the ten smallest are. */
static void charge(const struct grid *grid) {
    uint64_t state = RANDOM_SEED;
    int64_t edge = grid->edge, number = grid->first * edge * edge;
    random_skip(&state, number);
    struct extreme extremes[2][CHARGES], theirs[2][CHARGES];
    for (int n = 0; n < CHARGES; n++) extremes[0][n] = extremes[1][n] = (struct extreme){-2, 0};
    for (int64_t left = grid->planes * edge * edge; left; left--, number++) {
        double value = random_next(&state);
        if (value > extremes[0][CHARGES - 1].value) keep(extremes[0], (struct extreme){value, number});
        if (-value > extremes[1][CHARGES - 1].value) keep(extremes[1], (struct extreme){-value, number});
    }
    if (comm_rank) comm_send(0, extremes, sizeof extremes);
    else if (is_spread(grid))
        for (int from = 1; from < comm_size; from++) {
            comm_receive(from, theirs, sizeof theirs);
            for (int n = 0; n < 2 * CHARGES; n++) keep(extremes[n / CHARGES], theirs[n / CHARGES][n % CHARGES]);
        }
    comm_broadcast(extremes, sizeof extremes);
    zero(grid, charges);
    for (int n = 0; n < 2 * CHARGES; n++) {
        int64_t at = extremes[n / CHARGES][n % CHARGES].number, plane = at / (edge * edge) - grid->first;
        if (plane >= 0 && plane < grid->planes)
            charges[ROW(grid, plane + 1, at / edge % edge + 1) + at % edge + 1] = n < CHARGES ? 1 : -1;
    }
    wrap(grid, charges);
}

int main(int argc, char **argv) {
    comm_begin(&argc, &argv);
    const struct class *class = NULL;
    for (size_t n = 0; n < sizeof CLASSES / sizeof *CLASSES; n++)
        if (CLASSES[n].name == *argv[1]) class = &CLASSES[n];
    /* A power of two, and at least two planes of the largest grid for each task. */
    if (!class || comm_size & (comm_size - 1) || comm_size > 1 << (class->levels - 1)) return 2;
    for (int n = 0; n < class->levels; n++) {
        struct grid *grid = &grids[n];
        grid->edge = 2 << n;
        int is_whole = grid->edge / comm_size < 2 || comm_size == 1;
        grid->planes = is_whole ? grid->edge : grid->edge / comm_size;
        grid->first = is_whole ? 0 : grid->planes * comm_rank;
        grid->u = malloc(points(grid) * sizeof(double));
        grid->r = malloc(points(grid) * sizeof(double));
    }
    const struct grid *top = &grids[class->levels - 1];
    charges = malloc(points(top) * sizeof(double));
    int repeats = atoi(argv[2]), is_right = 1;
    double took = 0;
    charge(top);
    for (int repeat = 0; repeat < repeats; repeat++) {
        zero(top, top->u);
        comm_barrier();
        double begun = comm_seconds();
        residual(top, top->u, charges, top->r);
        for (int n = 0; n < ITERATIONS; n++) {
            cycle(class->levels);
            residual(top, top->u, charges, top->r);
        }
        double last = norm(top);
        took += comm_seconds() - begun;
        is_right &= fabs(last - class->norm) <= 1e-8 * class->norm;
    }
    return comm_report(is_right, took);
}
