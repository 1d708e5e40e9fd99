// Notices every wrong bit: all registers of a thread that computes and of one that waits in a call, and the content of all kinds of pages. Each word of them
// carries its own address and the round in which it was written.
// calls: arch_prctl read
#include "guest.h"
#include <cpuid.h>
#include <stddef.h>

enum { ROUNDS = 24, POINT = 5, PAGE = 4096, XSAVE_BYTES = 16384, GENERAL = 15 };

// General registers in the order of `general` below, then flags and stack pointer.
struct registers {
    uint64_t general[GENERAL], flags, sp;
};

struct holder {
    struct registers before, after;
    // Components of the extended state that are held, and what xsave left of it.
    uint64_t components;
    unsigned char *before_state, *after_state, *own_state;
    // Where its registers are held: the instruction that jumps here jumps on when this changes.
    void *volatile at;
    // They are loaded.
    volatile uint64_t loaded;
    // Of the general registers, those that a system call leaves alone.
    unsigned held;
    const char *name;
};

static const char *const general[GENERAL] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11 };

__attribute__((used)) static struct holder spinner = {.name = "computing", .held = (1 << GENERAL) - 1};
__attribute__((used)) static struct holder caller = {.name = "waiting", .held = ((1 << GENERAL) - 1) & ~(1 << RCX | 1 << R11)};

void hold_spinning(void);
void hold_calling(void);
extern char spin_here[], spin_done[];

// Loads all registers of a holder, stays, and stores them. A store of a constant and a jump through memory need no register and no flag.
#define HOLD(function, holder, stay)                                                                            \
    __asm__(".text\n.globl " #function "\n" #function ":\n"                                                     \
            "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n pushfq\n"                   \
            "mov " #holder "+272(%rip), %eax\n mov " #holder "+276(%rip), %edx\n"                                \
            "mov " #holder "+296(%rip), %rcx\n xsave64 (%rcx)\n"                                                 \
            "mov " #holder "+280(%rip), %rcx\n xrstor64 (%rcx)\n"                                                \
            "mov %rsp, " #holder "+128(%rip)\n"                                                                  \
            "pushq " #holder "+120(%rip)\n"                                                                      \
            "mov " #holder "+0(%rip), %rax\n mov " #holder "+8(%rip), %rbx\n mov " #holder "+16(%rip), %rcx\n"   \
            "mov " #holder "+24(%rip), %rdx\n mov " #holder "+32(%rip), %rsi\n mov " #holder "+40(%rip), %rdi\n" \
            "mov " #holder "+48(%rip), %rbp\n mov " #holder "+56(%rip), %r8\n mov " #holder "+64(%rip), %r9\n"   \
            "mov " #holder "+72(%rip), %r10\n mov " #holder "+80(%rip), %r11\n mov " #holder "+88(%rip), %r12\n" \
            "mov " #holder "+96(%rip), %r13\n mov " #holder "+104(%rip), %r14\n mov " #holder "+112(%rip), %r15\n" \
            "popfq\n" stay                                                                                       \
            "mov %rsp, " #holder "+264(%rip)\n mov " #holder "+128(%rip), %rsp\n pushfq\n popq " #holder "+256(%rip)\n" \
            "mov %rax, " #holder "+136(%rip)\n mov %rbx, " #holder "+144(%rip)\n mov %rcx, " #holder "+152(%rip)\n" \
            "mov %rdx, " #holder "+160(%rip)\n mov %rsi, " #holder "+168(%rip)\n mov %rdi, " #holder "+176(%rip)\n" \
            "mov %rbp, " #holder "+184(%rip)\n mov %r8, " #holder "+192(%rip)\n mov %r9, " #holder "+200(%rip)\n" \
            "mov %r10, " #holder "+208(%rip)\n mov %r11, " #holder "+216(%rip)\n mov %r12, " #holder "+224(%rip)\n" \
            "mov %r13, " #holder "+232(%rip)\n mov %r14, " #holder "+240(%rip)\n mov %r15, " #holder "+248(%rip)\n" \
            "mov " #holder "+272(%rip), %eax\n mov " #holder "+276(%rip), %edx\n"                                \
            "mov " #holder "+288(%rip), %rcx\n xsave64 (%rcx)\n"                                                 \
            "mov " #holder "+296(%rip), %rcx\n xrstor64 (%rcx)\n"                                                \
            "popfq\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n")

_Static_assert(offsetof(struct holder, after) == 136 && offsetof(struct holder, components) == 272 && offsetof(struct holder, at) == 304 && offsetof(struct holder, loaded) == 312, "HOLD knows them");

HOLD(hold_spinning, spinner, ".globl spin_here\nspin_here: movq $1, spinner+312(%rip)\n pause\n jmp *spinner+304(%rip)\n.globl spin_done\nspin_done:\n");
HOLD(hold_calling, caller, "movq $1, caller+312(%rip)\n syscall\n");

// x87, SSE, AVX, and the three of AVX-512.
enum { COMPONENTS = 0xe7, MXCSR_AT = 24, X87_BYTES = 32, SSE_BYTES = 512, HEADER_AT = 512, HEADER_BYTES = 64 };
static const int extended[] = {2, 5, 6, 7};

static void component(int number, unsigned *at, unsigned *bytes) {
    unsigned c, d;
    __cpuid_count(13, number, *bytes, *at, c, d);
}

static unsigned char pattern(unsigned at, int round) {
    return (unsigned char)(at * 37 + round * 11 + 5);
}

static void fill_state(struct holder *h, int round) {
    memset(h->before_state, 0, XSAVE_BYTES);
    // Registers of x87 and SSE; control words that round oddly; all x87 registers are in use.
    for (unsigned at = X87_BYTES; at < X87_BYTES + 8 * 16; at++)
        if (at % 16 < 10) h->before_state[at] = pattern(at, round);
    for (unsigned at = X87_BYTES + 8 * 16; at < X87_BYTES + 8 * 16 + 16 * 16; at++) h->before_state[at] = pattern(at, round);
    uint16_t control = 0x0b7f;
    uint32_t mxcsr = 0xdf80;
    memcpy(h->before_state, &control, sizeof control);
    h->before_state[4] = 0xff;
    memcpy(h->before_state + MXCSR_AT, &mxcsr, sizeof mxcsr);
    memcpy(h->before_state + HEADER_AT, &h->components, sizeof h->components);
    for (unsigned i = 0; i < sizeof extended / sizeof *extended; i++) {
        unsigned at, bytes;
        if (!(h->components >> extended[i] & 1)) continue;
        component(extended[i], &at, &bytes);
        for (unsigned k = at; k < at + bytes; k++) h->before_state[k] = pattern(k, round);
    }
}

static void same_state(const struct holder *h) {
    // Not the last x87 instruction and its operand: not every processor keeps them.
    for (unsigned at = 0; at < XSAVE_BYTES; at++) {
        bool told = at >= 6 && at < MXCSR_AT, mask = at >= 28 && at < 32, rest = at >= 416 && at < HEADER_AT + HEADER_BYTES;
        if (told || mask || rest || h->before_state[at] == h->after_state[at]) continue;
        SAY("%s: byte %u of the extended state is %02x, not %02x", h->name, at, h->after_state[at], h->before_state[at]);
        fflush(stdout);
        _exit(2);
    }
}

static void same(const struct holder *h, const char *name, uint64_t is, uint64_t was) {
    if (is == was) return;
    SAY("%s: %s is %llx, not %llx", h->name, name, (long long)is, (long long)was);
    fflush(stdout);
    _exit(2);
}

static void same_registers(const struct holder *h) {
    for (int i = 0; i < GENERAL; i++)
        if (h->held >> i & 1) same(h, general[i], h->after.general[i], h->before.general[i]);
    same(h, "flags", h->after.flags, h->before.flags);
    same(h, "rsp", h->after.sp, h->before.sp);
}

static unsigned char *state(void) {
    unsigned char *state = mmap(NULL, XSAVE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(state != MAP_FAILED);
    return state;
}

static void prepare(struct holder *h) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    h->components = low & COMPONENTS;
    h->before_state = state(), h->after_state = state(), h->own_state = state();
}

// Carry, parity, adjust, zero, sign, direction, overflow, alignment check; interrupts are always on. Not the identification flag: no tracer can set it.
static const uint64_t flags[] = {0x200 | 0x2 | 0x8d5, 0x200 | 0x2 | 0x400 | 0x40000, 0x200 | 0x2 | 0xc41};

static void fill(struct holder *h, int round) {
    for (int i = 0; i < GENERAL; i++) h->before.general[i] = 0x0123456789abcdefULL * (i + 1) ^ ((uint64_t)round << 40);
    h->before.flags = flags[round % 3];
    fill_state(h, round);
}

static int ways[2];
static pthread_barrier_t begin, end;

static void bases(uint64_t *fs, uint64_t *gs) {
    CHECK(RAW(arch_prctl, 0x1003, fs) == 0 && RAW(arch_prctl, 0x1004, gs) == 0);
}

static void *hold(void *which) {
    struct holder *h = which;
    uint64_t fs, gs, fs_now, gs_now;
    prepare(h);
    CHECK(RAW(arch_prctl, 0x1001, h == &spinner ? 0x123456789000 : 0x23456789a000) == 0);
    bases(&fs, &gs);
    for (int round = 0; round < ROUNDS; round++) {
        static char byte;
        fill(h, round);
        if (h == &caller) {
            h->before.general[RAX] = SYS_read, h->before.general[RDI] = ways[0];
            h->before.general[RSI] = (uint64_t)&byte, h->before.general[RDX] = 1;
        }
        pthread_barrier_wait(&begin);
        if (h == &caller) hold_calling();
        else hold_spinning();
        // What the call returned.
        if (h == &caller) h->before.general[RAX] = 1;
        same_registers(h);
        same_state(h);
        bases(&fs_now, &gs_now);
        CHECK(fs_now == fs && gs_now == gs);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

// Pages of several kinds, each word with its address and the round.
static const uint64_t KEY = 0x5a5aa5a500000000;
enum { KINDS = 5, WORDS = 64 * PAGE / 8 };
static uint64_t in_bss[WORDS], in_data[WORDS] = {1}, *pages[KINDS];
static unsigned char *empty, *given_back;

static uint64_t word(const uint64_t *at, int round) {
    return (uint64_t)at ^ KEY ^ (uint64_t)round;
}

static void make_pages(uint64_t *on_stack) {
    put_file("pages", "");
    int fd = open("pages", O_RDWR);
    CHECK(ftruncate(fd, WORDS * 8) == 0);
    pages[0] = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    pages[1] = malloc(WORDS * 8);
    pages[2] = in_bss, pages[3] = in_data, pages[4] = on_stack;
    CHECK(pages[0] != MAP_FAILED && pages[1] && close(fd) == 0);
    empty = mmap(NULL, 128 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(empty != MAP_FAILED);
    given_back = empty + 64 * PAGE;
    memset(given_back, 7, 64 * PAGE);
    CHECK(madvise(given_back, 64 * PAGE, MADV_DONTNEED) == 0);
    CHECK(mprotect(empty, 128 * PAGE, PROT_READ) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < WORDS; i++) pages[kind][i] = word(&pages[kind][i], 0);
}

// Every fourth page is written in a round.
static int written_in(int kind, int i, int round) {
    int turn = (i / (PAGE / 8) + kind) % 4;
    return round - (round + 4 - turn) % 4 > 0 ? round - (round + 4 - turn) % 4 : 0;
}

static void check_pages(int round) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < WORDS; i++) {
            uint64_t *at = &pages[kind][i];
            if (*at == word(at, written_in(kind, i, round - 1))) {
                if (written_in(kind, i, round) == round) *at = word(at, round);
                continue;
            }
            SAY("round %d: word %d of pages of kind %d is wrong", round, i, kind);
            fflush(stdout);
            _exit(2);
        }
    for (int i = 0; i < 128 * PAGE; i++) CHECK(empty[i] == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t on_stack[WORDS];
    pthread_t threads[2];
    make_pages(on_stack);
    CHECK(pipe(ways) == 0);
    CHECK(pthread_barrier_init(&begin, NULL, 3) == 0 && pthread_barrier_init(&end, NULL, 3) == 0);
    CHECK(pthread_create(&threads[0], NULL, hold, &spinner) == 0);
    CHECK(pthread_create(&threads[1], NULL, hold, &caller) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        spinner.at = spin_here;
        spinner.loaded = caller.loaded = 0;
        pthread_barrier_wait(&begin);
        while (!spinner.loaded || !caller.loaded) sched_yield();
        check_pages(round);
        if (round == POINT) GUEST_POINT();
        spinner.at = spin_done;
        CHECK(write(ways[1], "", 1) == 1);
        pthread_barrier_wait(&end);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    SAY("%d rounds: all registers and all pages are right", ROUNDS);
    SUCCESS();
}
