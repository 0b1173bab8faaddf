// What LB+-Tree takes of PMDK: a file that is mapped.

#pragma once

#include "rival.h"

#define PMEM_FILE_CREATE 1

inline void *pmem_map_file(const char *path, size_t size, int, mode_t, size_t *mapped, int *is_pmem) {
    *mapped = size;
    *is_pmem = 1;
    return rival::map_file(path, size);
}

inline int pmem_unmap(void *at, size_t size) { return munmap(at, size); }
