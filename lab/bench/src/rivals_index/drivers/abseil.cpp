// Abseil's B-Tree in memory over a log: each change appends a record with a checksum, clwb and sfence.
//
// Keys and values of 8 bytes make records of 32 bytes. With names the map has the place of the last record of each,
// whose value is read there. The log is never collected, and its space is not counted.

#include "rival.h"

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"

namespace {

enum Kind : uint32_t { PUT = 1, REMOVED = 2 };

uint64_t checksum(uint64_t one, uint64_t other) {
    uint64_t sum = (one ^ (other << 1)) * 0x9e3779b97f4a7c15ull;
    return sum ^ (sum >> 32);
}

struct Log {
    char *start, *next, *end;
    uint32_t sequence = 0;

    Log(const char *path, size_t size) : start(rival::map_file(path, size)), next(start), end(start + size) {}

    char *take(size_t size) {
        if (next + size > end) rival::fail("the log is full");
        char *at = next;
        next += size;
        return at;
    }
};

struct Numbers {
    absl::btree_map<uint64_t, uint64_t> map;
    Log log;

    explicit Numbers(const rival::Setting &setting) : log(setting.path, setting.keys * 32 * 3 + (1 << 20)) {}

    struct Session {
        Numbers &all;

        void append(Kind kind, uint64_t key, uint64_t value) {
            uint64_t *record = (uint64_t *)all.log.take(32);
            uint64_t head = (uint64_t)kind << 32 | all.log.sequence++;
            record[0] = head;
            record[1] = key;
            record[2] = value;
            record[3] = checksum(head ^ key, value);
            rival::persist(record, 32);
        }

        void insert(uint64_t key, uint64_t value) {
            append(PUT, key, value);
            all.map.emplace(key, value);
        }

        bool get(uint64_t key, uint64_t &value) {
            auto found = all.map.find(key);
            if (found == all.map.end()) return false;
            value = found->second;
            return true;
        }

        bool update(uint64_t key, uint64_t value) {
            auto found = all.map.find(key);
            if (found == all.map.end()) return false;
            append(PUT, key, value);
            found->second = value;
            return true;
        }

        void remove(uint64_t key) {
            auto found = all.map.find(key);
            if (found == all.map.end()) return;
            append(REMOVED, key, 0);
            all.map.erase(found);
        }

        template <class Visit>
        size_t scan(uint64_t from, size_t length, Visit visit) {
            size_t visited = 0;
            for (auto at = all.map.lower_bound(from); at != all.map.end(); ++at) {
                visit(at->first, at->second);
                if (++visited == length) break;
            }
            return visited;
        }
    };

    Session session(bool) { return Session{*this}; }
    uint64_t pool_bytes() { return (uint64_t)(log.next - log.start); }
    uint64_t memory_bytes() { return mallinfo2().uordblks; }
};

struct Names {
    absl::btree_map<std::string, const char *> map;
    Log log;

    explicit Names(const rival::Setting &setting) : log(setting.path, setting.keys * 160 * 3 + (1 << 20)) {}

    struct Session {
        Names &all;

        // The place of the value.
        const char *append(Kind kind, const rival::Name &name, uint64_t value) {
            size_t size = 16 + name.length + (kind == PUT ? rival::VALUE_SIZE : 0);
            char *record = all.log.take((size + 7) & ~7ull);
            uint64_t head = (uint64_t)kind << 56 | name.length << 32 | all.log.sequence++;
            memcpy(record, &head, 8);
            memcpy(record + 16, name.bytes, name.length);
            char *at = record + 16 + name.length;
            if (kind == PUT) {
                memcpy(at, &value, 8);
                memset(at + 8, 7, rival::VALUE_SIZE - 8);
            }
            uint64_t sum = head;
            for (size_t word = 16; word < size; word += 8) {
                uint64_t bits;
                memcpy(&bits, record + word, 8);
                sum = checksum(sum, bits);
            }
            memcpy(record + 8, &sum, 8);
            rival::persist(record, size);
            return at;
        }

        static absl::string_view view(const rival::Name &name) { return absl::string_view(name.bytes, name.length); }

        void insert(const rival::Name &name, uint64_t value) {
            const char *at = append(PUT, name, value);
            all.map.emplace(std::string(name.bytes, name.length), at);
        }

        bool get(const rival::Name &name, uint64_t &value) {
            auto found = all.map.find(view(name));
            if (found == all.map.end()) return false;
            memcpy(&value, found->second, 8);
            return true;
        }

        bool update(const rival::Name &name, uint64_t value) {
            auto found = all.map.find(view(name));
            if (found == all.map.end()) return false;
            found->second = append(PUT, name, value);
            return true;
        }

        void remove(const rival::Name &name) {
            auto found = all.map.find(view(name));
            if (found == all.map.end()) return;
            append(REMOVED, name, 0);
            all.map.erase(found);
        }

        template <class Visit>
        size_t scan(const rival::Name &from, size_t length, Visit visit) {
            size_t visited = 0;
            for (auto at = all.map.lower_bound(view(from)); at != all.map.end(); ++at) {
                uint64_t value;
                memcpy(&value, at->second, 8);
                visit(rival::word_of(at->first.data()), value);
                if (++visited == length) break;
            }
            return visited;
        }
    };

    Session session(bool) { return Session{*this}; }
    uint64_t pool_bytes() { return (uint64_t)(log.next - log.start); }
    uint64_t memory_bytes() { return mallinfo2().uordblks; }
};

}  // namespace

int main(int argc, char **argv) {
    rival::Setting setting = rival::setting(argc, argv);
    if (rival::is_strings(argv)) {
        Names structure(setting);
        return rival::serve<rival::Name>(structure);
    }
    Numbers structure(setting);
    return rival::serve<uint64_t>(structure);
}
