// What P-ART takes of oneTBB: a value a thread, and all of them.

#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace tbb {

template <class T>
class enumerable_thread_specific {
    std::mutex latch;
    std::deque<T> all;
    std::map<std::thread::id, T *> own;

   public:
    // P-ART asks once a thread.
    T &local() {
        std::lock_guard<std::mutex> held(latch);
        T *&mine = own[std::this_thread::get_id()];
        if (!mine) {
            all.emplace_back();
            mine = &all.back();
        }
        return *mine;
    }

    auto begin() { return all.begin(); }
    auto end() { return all.end(); }
};

}  // namespace tbb
