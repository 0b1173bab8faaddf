// The ordered map of the standard library, nothing of it durable: what the test of the commands and loops runs.

#include "rival.h"

#include <map>

namespace {

template <class K>
struct Model {
    std::map<std::string, uint64_t> map;

    static std::string bytes(uint64_t key) {
        key = __builtin_bswap64(key);
        return std::string((const char *)&key, sizeof key);
    }
    static std::string bytes(const rival::Name &name) { return std::string(name.bytes, name.length); }

    static uint64_t word(const std::string &bytes) {
        if (std::is_same<K, rival::Name>::value) return rival::word_of(bytes.data());
        uint64_t key;
        memcpy(&key, bytes.data(), sizeof key);
        return __builtin_bswap64(key);
    }

    struct Session {
        Model &all;

        void insert(const K &key, uint64_t value) { all.map[bytes(key)] = value; }

        bool get(const K &key, uint64_t &value) {
            auto found = all.map.find(bytes(key));
            if (found == all.map.end()) return false;
            value = found->second;
            return true;
        }

        bool update(const K &key, uint64_t value) {
            auto found = all.map.find(bytes(key));
            if (found == all.map.end()) return false;
            found->second = value;
            return true;
        }

        void remove(const K &key) { all.map.erase(bytes(key)); }

        template <class Visit>
        size_t scan(const K &from, size_t length, Visit visit) {
            size_t visited = 0;
            for (auto at = all.map.lower_bound(bytes(from)); at != all.map.end() && visited < length; ++at) {
                visit(word(at->first), at->second);
                visited++;
            }
            return visited;
        }
    };

    Session session(bool) { return Session{*this}; }
    uint64_t pool_bytes() { return 0; }
    uint64_t memory_bytes() { return mallinfo2().uordblks; }
};

}  // namespace

int main(int argc, char **argv) {
    rival::setting(argc, argv);
    if (rival::is_strings(argv)) {
        Model<rival::Name> structure;
        return rival::serve<rival::Name>(structure);
    }
    Model<uint64_t> structure;
    return rival::serve<uint64_t>(structure);
}
