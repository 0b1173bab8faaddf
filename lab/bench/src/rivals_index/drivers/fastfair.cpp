// FAST&FAIR (Hwang, Kim, Won, Nam; FAST 2018), from a checkout of its authors' sources: the tree for one thread.
//
// Its clflush is assembled as clwb and its mfence as sfence, which is faster on every processor that has them. Its
// pages lie in a file. A value is stored plus one, for a null pointer ends a page's entries. It has no update, and a
// scan without a limit: here both look at the entries of its leaves; a lookup that finds nothing prints nothing.

#include "rival.h"

#include <cassert>
#include <climits>
#include <future>
#include <math.h>
#include <mutex>

#ifndef RIVAL_COUNTED
asm(".macro clflush operand:vararg\n\tclwb \\operand\n.endm");
#endif
asm(".macro mfence\n\tsfence\n.endm");

#define posix_memalign rival::memalign_into
#define private public
#include "single/src/btree.h"
#undef private
#undef posix_memalign

namespace {

struct FastFair {
    btree *made;

    explicit FastFair(const rival::Setting &setting) {
        rival::arena.create(setting.path, setting.keys * 64 + (16 << 20));
        made = new btree;
    }

    struct Session {
        btree &tree;

        void insert(uint64_t key, uint64_t value) { tree.btree_insert((int64_t)key, (char *)(value + 1)); }

        page *leaf(int64_t key) {
            page *at = (page *)tree.root;
            while (at->hdr.leftmost_ptr) at = (page *)at->linear_search(key);
            return at;
        }

        bool get(uint64_t key, uint64_t &value) {
            int64_t wanted = (int64_t)key;
            page *at = leaf(wanted);
            char *found;
            while ((found = at->linear_search(wanted)) == (char *)at->hdr.sibling_ptr) {
                if (!found) return false;
                at = (page *)found;
            }
            if (!found) return false;
            value = (uint64_t)found - 1;
            return true;
        }

        bool update(uint64_t key, uint64_t value) {
            int64_t wanted = (int64_t)key;
            for (page *at = leaf(wanted); at; at = at->hdr.sibling_ptr) {
                for (int slot = 0; at->records[slot].ptr; slot++) {
                    if (at->records[slot].key != wanted) continue;
                    at->records[slot].ptr = (char *)(value + 1);
                    rival::persist(&at->records[slot].ptr, sizeof(char *));
                    return true;
                }
                page *next = at->hdr.sibling_ptr;
                if (!next || next->records[0].key > wanted) return false;
            }
            return false;
        }

        void remove(uint64_t key) { tree.btree_delete((int64_t)key); }

        template <class Visit>
        size_t scan(uint64_t from, size_t length, Visit visit) {
            int64_t first = (int64_t)from;
            size_t visited = 0;
            for (page *at = leaf(first); at; at = at->hdr.sibling_ptr) {
                for (int slot = 0; at->records[slot].ptr; slot++) {
                    if (at->records[slot].key < first) continue;
                    visit((uint64_t)at->records[slot].key, (uint64_t)at->records[slot].ptr);
                    if (++visited == length) return visited;
                }
            }
            return visited;
        }
    };

    Session session(bool) { return Session{*made}; }

    uint64_t pool_bytes() { return rival::arena.bytes(); }
    uint64_t memory_bytes() { return 0; }
};

}  // namespace

int main(int argc, char **argv) {
    FastFair structure(rival::setting(argc, argv));
    return rival::serve<uint64_t>(structure);
}
