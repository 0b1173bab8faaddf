// What all drivers share: commands and replies, the loops that are timed, memory of a file, flush and fence.
//
// A driver is a process with one structure. It reads a command a line and replies with a line that begins with '@':
// what a rival prints by itself is passed over. Keys come from a file that is the same for all contenders.

#pragma once

#include <fcntl.h>
#include <immintrin.h>
#include <malloc.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

// Valgrind does not know clwb: where instructions are counted, there is another one in its place.
#ifdef RIVAL_COUNTED
asm(".macro clwb operand:vararg\n\tclflush \\operand\n.endm");
#endif

namespace rival {

constexpr size_t LINE = 64;
constexpr size_t SCAN_LEN = 100;
constexpr size_t VALUE_SIZE = 100;

[[noreturn]] inline void fail(const char *what) {
    perror(what);
    _exit(1);
}

// Every line from `at` on, and one fence.
inline void persist(const void *at, size_t size) {
    const char *line = (const char *)((uintptr_t)at & ~(LINE - 1));
    for (; line < (const char *)at + size; line += LINE) asm volatile("clwb %0" : : "m"(*line));
    asm volatile("sfence" : : : "memory");
}

// The compiler has to have both.
inline void seen(uint64_t key, uint64_t value) { asm volatile("" : : "r"(key), "r"(value)); }

// What a scan shows of a key of 16 to 32 bytes: the eight bytes that have the lower half of its number.
inline uint64_t word_of(const char *name) {
    uint64_t word;
    memcpy(&word, name + 8, sizeof word);
    return word;
}

// A key of 16 to 32 bytes.
struct Name {
    uint64_t number;
    uint64_t length;
    char bytes[32];
};

inline uint64_t number(uint64_t key) { return key; }
inline uint64_t number(const Name &name) { return name.number; }

struct Setting {
    const char *path;
    uint64_t keys;
};

constexpr size_t LARGE_PAGE = 2 << 20;

// Numbers of the Linux ABI, which older headers do not have.
constexpr int POPULATE_WRITE = 23, COLLAPSE = 25;

// A file at a multiple of 2 MiB, all of whose pages are there before anything is timed, in large pages where the system
// has them for files in memory: Tembo asks for the same. It has no name any more.
inline char *map_file(const char *path, size_t wanted) {
    size_t size = (wanted + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    int file = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) fail(path);
    void *room = mmap(nullptr, size + LARGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) fail(path);
    char *at = (char *)(((uintptr_t)room + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
    if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) fail(path);
    // Hints: what fails leaves small pages, and the report says how many are large.
    (void)madvise(at, size, MADV_HUGEPAGE);
    if (madvise(at, size, POPULATE_WRITE) != 0) {
        for (size_t page = 0; page < size; page += 4096) *(volatile char *)(at + page) = 0;
    }
    for (size_t page = 0; page < size; page += LARGE_PAGE) (void)madvise(at + page, LARGE_PAGE, COLLAPSE);
    close(file);
    unlink(path);
    return at;
}

// An allocator of whole lines in a file, by classes of size, with free lists that no crash would leave: it costs a
// rival less than a durable one.
class Arena {
    static constexpr size_t SPAN = 1 << 16;
    static constexpr size_t CLASSES = 65;
    struct Local {
        char *next[CLASSES], *end[CLASSES], *free[CLASSES];
    };
    static inline thread_local Local local;
    char *start = nullptr;
    size_t spans = 0;
    uint8_t *classes = nullptr;
    std::atomic<size_t> used{0};
    std::atomic<int64_t> freed{0};

   public:
    void create(const char *path, size_t size) {
        spans = size / SPAN;
        classes = (uint8_t *)calloc(spans, 1);
        start = map_file(path, spans * SPAN);
    }

    bool has(const void *at) const { return start && (const char *)at >= start && (const char *)at < start + spans * SPAN; }

    bool is_ready() const { return start != nullptr; }

    void *allocate(size_t size) {
        size_t kind = (size + LINE - 1) / LINE;
        if (kind == 0) kind = 1;
        if (kind >= CLASSES) fail("an allocation above 4 KiB");
        if (char *at = local.free[kind]) {
            local.free[kind] = *(char **)at;
            return at;
        }
        if (local.next[kind] == local.end[kind]) {
            size_t span = used.fetch_add(1);
            if (span >= spans) fail("the file is full");
            classes[span] = (uint8_t)kind;
            local.next[kind] = start + span * SPAN;
            local.end[kind] = local.next[kind] + SPAN / (kind * LINE) * (kind * LINE);
        }
        char *at = local.next[kind];
        local.next[kind] += kind * LINE;
        return at;
    }

    void release(void *at) {
        size_t kind = classes[((char *)at - start) / SPAN];
        *(char **)at = local.free[kind];
        local.free[kind] = (char *)at;
    }

    // Bytes of spans that are in use.
    uint64_t bytes() const { return used.load() * SPAN; }
};

inline Arena arena;

inline int memalign_into(void **at, size_t, size_t size) {
    *at = arena.allocate(size);
    return 0;
}

// Callgrind finds these by their names.
extern "C" __attribute__((noinline, noclone, used)) inline void rival_counted(void (*work)(void *), void *with) {
    work(with);
    asm volatile("" : : : "memory");
}

extern "C" __attribute__((noinline, noclone, used)) inline void rival_guarded(void (*work)(void *), void *with) {
    rival_counted(work, with);
    asm volatile("" : : : "memory");
}

template <class Session, class Key>
uint64_t act(Session &session, const std::string &operation, const Key *plan, uint64_t count) {
    uint64_t right = 0, value = 0;
    auto show = [](uint64_t key, uint64_t value) { seen(key, value); };
    if (operation == "insert" || operation == "sequential-insert") {
        for (uint64_t at = 0; at < count; at++) session.insert(plan[at], number(plan[at]));
        right = count;
    } else if (operation == "lookup") {
        for (uint64_t at = 0; at < count; at++) right += session.get(plan[at], value) && value == number(plan[at]);
    } else if (operation == "zipf-lookup") {
        for (uint64_t at = 0; at < count; at++) right += session.get(plan[at], value);
    } else if (operation == "missing-lookup") {
        for (uint64_t at = 0; at < count; at++) right += !session.get(plan[at], value);
    } else if (operation == "update") {
        for (uint64_t at = 0; at < count; at++) right += session.update(plan[at], at);
    } else if (operation == "scan") {
        for (uint64_t at = 0; at < count; at++) right += session.scan(plan[at], SCAN_LEN, show);
    } else if (operation == "remove") {
        for (uint64_t at = 0; at < count; at++) session.remove(plan[at]);
        right = count;
    } else {
        fail("an unknown operation");
    }
    return right;
}

inline uint64_t clock_of(clockid_t id) {
    timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

template <class Key>
struct Plan {
    const Key *keys = nullptr;
    uint64_t count = 0;

    bool read() {
        char path[4096];
        if (scanf(" %lu %4095s", &count, path) != 2) return false;
        int file = open(path, O_RDONLY);
        if (file < 0) fail(path);
        void *at = mmap(nullptr, std::max<size_t>(count * sizeof(Key), 1), PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
        if (at == MAP_FAILED) fail(path);
        close(file);
        keys = (const Key *)at;
        return true;
    }

    ~Plan() {
        if (keys) munmap((void *)keys, count * sizeof(Key));
    }
};

template <class Structure, class Key>
struct Trial {
    Structure &structure;
    const std::string &operation;
    const Plan<Key> &plan;
    std::atomic<int> *waiting = nullptr;
    uint64_t cpu = 0, process = 0, wall = 0, right = 0;

    void run() {
        auto session = structure.session(waiting != nullptr);
        if (waiting) {
            waiting->fetch_sub(1);
            while (waiting->load() > 0) _mm_pause();
        }
        uint64_t process_began = clock_of(CLOCK_PROCESS_CPUTIME_ID), began = clock_of(CLOCK_MONOTONIC);
        uint64_t cpu_began = clock_of(CLOCK_THREAD_CPUTIME_ID);
        right = act(session, operation, plan.keys, plan.count);
        cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
        wall = clock_of(CLOCK_MONOTONIC) - began;
        process = clock_of(CLOCK_PROCESS_CPUTIME_ID) - process_began;
    }

    static void call(void *trial) { ((Trial *)trial)->run(); }
};

inline void reply(uint64_t one, uint64_t two = 0, uint64_t three = 0, uint64_t four = 0) {
    printf("\n@ %lu %lu %lu %lu\n", one, two, three, four);
    fflush(stdout);
}

inline uint64_t mix(uint64_t sum, uint64_t word) { return (sum ^ word) * 0x100000001b3ull; }
inline uint64_t sum_of(uint64_t sum, uint64_t key) { return mix(sum, key); }
inline uint64_t sum_of(uint64_t sum, const Name &name) {
    sum = mix(mix(sum, name.number), name.length);
    for (uint64_t at = 0; at < name.length; at++) sum = mix(sum, (unsigned char)name.bytes[at]);
    return sum;
}

// The least time between two readings of the clock.
inline uint64_t clock_cost() {
    uint64_t least = ~0ull;
    for (int at = 0; at < 1000; at++) {
        uint64_t began = clock_of(CLOCK_THREAD_CPUTIME_ID);
        least = std::min(least, clock_of(CLOCK_THREAD_CPUTIME_ID) - began);
    }
    return least;
}

// Inserts the keys, each timed by itself: the time that half of them do not exceed, that 999 of 1000, the longest.
template <class Key, class Structure>
void reply_latencies(Structure &structure, const Plan<Key> &plan) {
    uint64_t *times = (uint64_t *)malloc(plan.count * sizeof *times), cost = clock_cost();
    if (!times || plan.count == 0) fail("memory");
    auto session = structure.session(false);
    uint64_t began = clock_of(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t at = 0; at < plan.count; at++) {
        session.insert(plan.keys[at], number(plan.keys[at]));
        uint64_t ended = clock_of(CLOCK_THREAD_CPUTIME_ID);
        times[at] = ended - began > cost ? ended - began - cost : 1;
        began = ended;
    }
    std::sort(times, times + plan.count);
    reply(times[plan.count / 2], times[plan.count - 1 - plan.count / 1000], times[plan.count - 1]);
    free(times);
}

// Commands until the end of the input.
template <class Key, class Structure>
int serve(Structure &structure) {
    reply(0);
    char word[64];
    while (scanf(" %63s", word) == 1) {
        std::string command = word, operation;
        if (command == "trial" || command == "pair" || command == "ready") {
            if (scanf(" %63s", word) != 1) break;
            operation = word;
        }
        if (command == "space") {
            reply(structure.pool_bytes(), structure.memory_bytes());
            continue;
        }
        Plan<Key> plan, other;
        if (!plan.read()) break;
        if (command == "sum") {
            uint64_t sum = 0xcbf29ce484222325ull;
            for (uint64_t at = 0; at < plan.count; at++) sum = sum_of(sum, plan.keys[at]);
            reply(sum);
        } else if (command == "latencies") {
            reply_latencies(structure, plan);
        } else if (command == "scan-sum") {
            auto session = structure.session(false);
            uint64_t sum = 0;
            auto add = [&](uint64_t key, uint64_t) { sum += key; };
            for (uint64_t at = 0; at < plan.count; at++) session.scan(plan.keys[at], SCAN_LEN, add);
            reply(sum);
        } else if (command == "trial" || command == "ready") {
            if (command == "ready") {
                reply(0);
                if (scanf(" %63s", word) != 1 || strcmp(word, "go") != 0) break;
            }
            Trial<Structure, Key> trial{structure, operation, plan};
            rival_guarded(&trial.call, &trial);
            reply(trial.cpu, trial.wall, trial.right, trial.process);
        } else if (command == "pair") {
            if (!other.read()) break;
            std::atomic<int> waiting{2};
            Trial<Structure, Key> one{structure, operation, plan, &waiting}, two{structure, operation, other, &waiting};
            std::thread beside([&] { two.run(); });
            one.run();
            beside.join();
            reply(one.cpu + two.cpu, std::max(one.wall, two.wall), one.right + two.right,
                  std::max(one.process, two.process));
        } else {
            fail("an unknown command");
        }
    }
    fflush(stdout);
    // Destructors of rivals are not what is measured, and some of them ask more than a driver gives.
    _exit(0);
}

inline Setting setting(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: driver numbers|strings FILE KEYS\n");
        _exit(2);
    }
    return Setting{argv[2], strtoull(argv[3], nullptr, 10)};
}

inline bool is_strings(char **argv) { return strcmp(argv[1], "strings") == 0; }

}  // namespace rival
