// P-ART of RECIPE (Lee, Mohan, Kashyap, Kim, Chidambaram; SOSP 2019), from a checkout of its authors' sources.
//
// Nodes and records lie in a file, by an allocator that no crash would survive. It has no update: here that is a
// lookup, a store, clwb and sfence. It does not free the record of a key that is removed. Its epochs are those of
// its sources; what they take of oneTBB (a value a thread) is a small file beside this one.

#include "rival.h"

#include <array>
#include <assert.h>
#include <memory>
#include <sys/types.h>
#include <sys/wait.h>

void *operator new(size_t size) {
    void *at = rival::arena.is_ready() ? rival::arena.allocate(size) : malloc(size);
    if (!at) rival::fail("memory");
    return at;
}

void operator delete(void *at) noexcept {
    if (rival::arena.has(at)) {
        rival::arena.release(at);
    } else {
        free(at);
    }
}

void operator delete(void *at, size_t) noexcept { operator delete(at); }

#define posix_memalign rival::memalign_into
#include "P-ART/Tree.cpp"
#undef posix_memalign

namespace {

constexpr size_t KEY_MAX = 32;

void load_key(TID, Key &) {}

// A key to search for, which no record has.
struct alignas(64) Probe {
    char bytes[sizeof(Key) + KEY_MAX];

    Key *key() { return reinterpret_cast<Key *>(bytes); }

    const Key *of(uint64_t number) {
        number = __builtin_bswap64(number);
        return of((const char *)&number, sizeof number);
    }

    const Key *of(const rival::Name &name) { return of(name.bytes, name.length); }

    const Key *of(const char *from, size_t length) {
        key()->value = 0;
        key()->key_len = length;
        memcpy(key()->fkey, from, length);
        return key();
    }
};

uint64_t record(uint64_t value) {
    char *at = (char *)rival::arena.allocate(rival::VALUE_SIZE);
    memcpy(at, &value, sizeof value);
    memset(at + sizeof value, 7, rival::VALUE_SIZE - sizeof value);
    rival::persist(at, rival::VALUE_SIZE);
    return (uint64_t)at;
}

// Values lie in the record of the key, or, with names, in a record of their own.
template <class K>
struct Part {
    ART_ROWEX::Tree *made;

    explicit Part(const rival::Setting &setting) {
        constexpr bool is_named = std::is_same<K, rival::Name>::value;
        rival::arena.create(setting.path, setting.keys * (is_named ? 512 : 224) + (64 << 20));
        made = new ART_ROWEX::Tree(load_key);
    }

    struct Session {
        ART_ROWEX::Tree &tree;
        ThreadInfo thread;
        Probe probe, last;

        explicit Session(ART_ROWEX::Tree &tree) : tree(tree), thread(tree.getThreadInfo()) {
            char highest[KEY_MAX];
            memset(highest, 0xff, sizeof highest);
            last.of(highest, sizeof highest);
        }

        void insert(uint64_t key, uint64_t value) {
            tree.insert(probe.key()->make_leaf(key, sizeof key, value), thread);
        }

        void insert(const rival::Name &name, uint64_t value) {
            tree.insert(probe.key()->make_leaf((char *)name.bytes, name.length, record(value)), thread);
        }

        bool get(uint64_t key, uint64_t &value) {
            void *found = tree.lookup(probe.of(key), thread);
            if (found) value = *(uint64_t *)found;
            return found != nullptr;
        }

        bool get(const rival::Name &name, uint64_t &value) {
            void *found = tree.lookup(probe.of(name), thread);
            if (found) value = **(uint64_t **)found;
            return found != nullptr;
        }

        bool update(uint64_t key, uint64_t value) {
            uint64_t *found = (uint64_t *)tree.lookup(probe.of(key), thread);
            if (!found) return false;
            *found = value;
            rival::persist(found, sizeof *found);
            return true;
        }

        bool update(const rival::Name &name, uint64_t value) {
            uint64_t *found = (uint64_t *)tree.lookup(probe.of(name), thread);
            if (!found) return false;
            uint64_t older = *found;
            *found = record(value);
            rival::persist(found, sizeof *found);
            rival::arena.release((void *)older);
            return true;
        }

        void remove(const K &key) { tree.remove(probe.of(key), thread); }

        template <class Visit>
        size_t scan(const K &from, size_t length, Visit visit) {
            Key *found[rival::SCAN_LEN];
            size_t count = 0;
            tree.lookupRange(probe.of(from), last.key(), nullptr, found, length, count, thread);
            for (size_t at = 0; at < count; at++) {
                uint64_t value = found[at]->value;
                if (std::is_same<K, rival::Name>::value) {
                    visit(rival::word_of((const char *)found[at]->fkey), *(uint64_t *)value);
                } else {
                    visit(__builtin_bswap64(*(uint64_t *)found[at]->fkey), value);
                }
            }
            return count;
        }
    };

    Session session(bool) { return Session(*made); }

    uint64_t pool_bytes() { return rival::arena.bytes(); }
    uint64_t memory_bytes() { return 0; }
};

}  // namespace

int main(int argc, char **argv) {
    rival::Setting setting = rival::setting(argc, argv);
    if (rival::is_strings(argv)) {
        Part<rival::Name> structure(setting);
        return rival::serve<rival::Name>(structure);
    }
    Part<uint64_t> structure(setting);
    return rival::serve<uint64_t>(structure);
}
