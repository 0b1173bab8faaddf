// LB+-Tree (Liu, Chen, Wu; PVLDB 13(7)), from a checkout of its authors' sources.
//
// Without transactional memory (RIVAL_RTM is not defined) its transactions are left out: they begin at once and
// never abort, which is right for one thread and costs nothing. Its sources have no other fallback.
// They have no update and no scan: here an update is a lookup, a store, clwb and sfence; a scan sorts the entries
// of each leaf by its own qsortBleaf and follows the siblings.

#include "rival.h"

#include <assert.h>
#include <libpmem.h>
#include <signal.h>

#ifndef RIVAL_RTM
#ifndef _XBEGIN_STARTED
#define _XBEGIN_STARTED (~0u)
#endif
#define _xbegin() _XBEGIN_STARTED
#define _xend() ((void)0)
#define _xabort(code) ((void)0)
#endif

// It brings a program of its own.
#define main lbtree_main
#define private public
#include "common/mempool.cc"
#include "lbtree-src/lbtree.cc"
#undef private
#undef main
#undef min
#undef max

tree *the_treep = nullptr;
int worker_thread_num = 1;
const char *nvm_file_name = nullptr;
int parse_command(int, char **) { return 0; }

namespace {

#ifdef RIVAL_RTM
constexpr int WORKERS = 2;
#else
constexpr int WORKERS = 1;
#endif

struct LbTree {
    lbtree *made;

    explicit LbTree(const rival::Setting &setting) {
        worker_id = 0;
        auto bytes = [](uint64_t size) { return (long long)((size >> 12) + 1) << 12; };
        the_thread_mempools.init(WORKERS, bytes(setting.keys * 16 * WORKERS + (16 << 20)), 4096);
        the_thread_nvmpools.init(WORKERS, setting.path, bytes(setting.keys * 64 * WORKERS + (16 << 20)));
        initUseful();
        made = new lbtree(nvmpool_alloc(4096));
        // An empty leaf, for insert() asks for one.
        bleaf *leaf = (bleaf *)nvmpool_alloc_node(LEAF_SIZE);
        memset((void *)leaf, 0, LEAF_SIZE);
        made->tree_meta->tree_root = leaf;
        made->tree_meta->setFirstLeaf(leaf);
    }

    struct Session {
        lbtree &tree;

        void insert(uint64_t key, uint64_t value) { tree.insert((key_type)key, (void *)value); }

        bool get(uint64_t key, uint64_t &value) {
            int position;
            bleaf *leaf = (bleaf *)tree.lookup((key_type)key, &position);
            if (position < 0) return false;
            value = leaf->ch(position).value;
            return true;
        }

        bool update(uint64_t key, uint64_t value) {
            int position;
            bleaf *leaf = (bleaf *)tree.lookup((key_type)key, &position);
            if (position < 0) return false;
            leaf->ch(position).value = value;
            clwb(&leaf->ch(position));
            sfence();
            return true;
        }

        void remove(uint64_t key) { tree.del((key_type)key); }

        template <class Visit>
        size_t scan(uint64_t from, size_t length, Visit visit) {
            key_type first = (key_type)from;
            int position;
            bleaf *leaf = (bleaf *)tree.lookup(first, &position);
            size_t visited = 0;
            for (bool is_first = true; leaf; leaf = leaf->nextSibling(), is_first = false) {
                int positions[LEAF_KEY_NUM], count = 0;
                for (int at = 0; at < LEAF_KEY_NUM; at++) {
                    if ((leaf->bitmap & (1 << at)) && (!is_first || leaf->k(at) >= first)) positions[count++] = at;
                }
                tree.qsortBleaf(leaf, 0, count - 1, positions);
                for (int at = 0; at < count; at++) {
                    visit((uint64_t)leaf->k(positions[at]), leaf->ch(positions[at]).value);
                    if (++visited == length) return visited;
                }
            }
            return visited;
        }
    };

    Session session(bool is_second) {
        static std::atomic<int> workers{0};
        worker_id = is_second ? workers++ % WORKERS : 0;
        return Session{*made};
    }

    template <class Pools>
    static uint64_t bytes(const Pools &pools) {
        uint64_t sum = 0;
        for (int at = 0; at < WORKERS; at++) sum += pools.tm_pools[at].mempool_cur - pools.tm_pools[at].mempool_start;
        return sum;
    }

    uint64_t pool_bytes() { return bytes(the_thread_nvmpools); }
    uint64_t memory_bytes() { return bytes(the_thread_mempools); }
};

}  // namespace

int main(int argc, char **argv) {
    LbTree structure(rival::setting(argc, argv));
    return rival::serve<uint64_t>(structure);
}
