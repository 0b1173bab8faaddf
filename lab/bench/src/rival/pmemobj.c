/*
 * What of libpmemobj the benchmarks of heaps use. The library is opened when it is needed, not linked: it reads
 * PMEM_IS_PMEM_FORCE when it is loaded, and without that it would msync a tmpfs in place of flushing lines.
 * Each function returns 0, or an error number.
 */
#include <libpmemobj.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT "tembo-bench"
/* Objects that the allocator keeps together. */
#define UNITS_PER_BLOCK 1024

static struct {
    void *handle;
    PMEMobjpool *(*create)(const char *, const char *, size_t, mode_t);
    void (*close)(PMEMobjpool *);
    PMEMoid (*root)(PMEMobjpool *, size_t);
    int (*tx_begin)(PMEMobjpool *, jmp_buf, ...);
    enum pobj_tx_stage (*tx_stage)(void);
    void (*tx_abort)(int);
    void (*tx_commit)(void);
    int (*tx_end)(void);
    int (*tx_add)(const void *, size_t);
    PMEMoid (*tx_alloc)(size_t, uint64_t, uint64_t);
    int (*tx_free)(PMEMoid);
    int (*ctl_get)(PMEMobjpool *, const char *, void *);
    int (*ctl_set)(PMEMobjpool *, const char *, void *);
    const char *(*errormsg)(void);
} lib;

struct bench_pmo {
    PMEMobjpool *pool;
    char *base;
    uint64_t root;
    uint64_t identity;
    uint64_t class_flag;
};

static int load(void)
{
    if (lib.handle != NULL)
        return 0;
    if (setenv("PMEM_IS_PMEM_FORCE", "1", 1) != 0)
        return errno;
    void *library = dlopen("libpmemobj.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return ENOENT;
#define FIND(field, name)                                                                            \
    do {                                                                                             \
        void *found = dlsym(library, name);                                                          \
        if (found == NULL)                                                                           \
            return ENOSYS;                                                                           \
        memcpy(&lib.field, &found, sizeof found);                                                    \
    } while (0)
    FIND(create, "pmemobj_create");
    FIND(close, "pmemobj_close");
    FIND(root, "pmemobj_root");
    FIND(tx_begin, "pmemobj_tx_begin");
    FIND(tx_stage, "pmemobj_tx_stage");
    FIND(tx_abort, "pmemobj_tx_abort");
    FIND(tx_commit, "pmemobj_tx_commit");
    FIND(tx_end, "pmemobj_tx_end");
    FIND(tx_add, "pmemobj_tx_add_range_direct");
    FIND(tx_alloc, "pmemobj_tx_xalloc");
    FIND(tx_free, "pmemobj_tx_free");
    FIND(ctl_get, "pmemobj_ctl_get");
    FIND(ctl_set, "pmemobj_ctl_set");
    FIND(errormsg, "pmemobj_errormsg");
#undef FIND
    lib.handle = library;
    return 0;
}

void bench_pmo_close(struct bench_pmo *pmo)
{
    if (pmo->pool != NULL)
        lib.close(pmo->pool);
    free(pmo);
}

static int open_all(struct bench_pmo *pmo, const char *path, size_t size, size_t root, size_t object)
{
    /* Pages are made when the pool is, not while it is measured. */
    int prefault = 1, stats = 1;
    if (lib.ctl_set(NULL, "prefault.at_create", &prefault) != 0)
        return EINVAL;
    if ((pmo->pool = lib.create(path, LAYOUT, size, 0600)) == NULL)
        return errno != 0 ? errno : EIO;
    if (lib.ctl_set(pmo->pool, "stats.enabled", &stats) != 0)
        return EINVAL;
    /* A class of its own for objects of one size, without headers: the least that the library documents. */
    if (object > 0) {
        struct pobj_alloc_class_desc class = {
            .unit_size = object,
            .alignment = 0,
            .units_per_block = UNITS_PER_BLOCK,
            .header_type = POBJ_HEADER_NONE,
        };
        if (lib.ctl_set(pmo->pool, "heap.alloc_class.new.desc", &class) != 0)
            return EINVAL;
        pmo->class_flag = POBJ_CLASS_ID(class.class_id);
    }
    PMEMoid oid = lib.root(pmo->pool, root);
    if (OID_IS_NULL(oid))
        return ENOMEM;
    pmo->base = (char *)pmo->pool;
    pmo->root = oid.off;
    pmo->identity = oid.pool_uuid_lo;
    return 0;
}

/* Makes a pool of `size` bytes, with a root of `root` bytes and objects of `object`. */
int bench_pmo_open(const char *path, size_t size, size_t root, size_t object, struct bench_pmo **out)
{
    int code = load();
    if (code != 0)
        return code;
    struct bench_pmo *pmo = calloc(1, sizeof *pmo);
    if (pmo == NULL)
        return ENOMEM;
    if ((code = open_all(pmo, path, size, root, object)) != 0) {
        bench_pmo_close(pmo);
        return code;
    }
    *out = pmo;
    return 0;
}

/* What offsets are counted from. */
char *bench_pmo_base(struct bench_pmo *pmo)
{
    return pmo->base;
}

uint64_t bench_pmo_root(struct bench_pmo *pmo)
{
    return pmo->root;
}

int bench_pmo_begin(struct bench_pmo *pmo)
{
    return lib.tx_begin(pmo->pool, NULL, TX_PARAM_NONE);
}

/* Ends the transaction of this thread. */
int bench_pmo_end(int commits)
{
    if (lib.tx_stage() == TX_STAGE_WORK) {
        if (commits)
            lib.tx_commit();
        else
            lib.tx_abort(ECANCELED);
    }
    return lib.tx_end();
}

/* Has the library note bytes that will be changed. */
int bench_pmo_add(const char *at, size_t len)
{
    return lib.tx_add(at, len);
}

/* The offset of an object, 0 if there is no room. */
uint64_t bench_pmo_alloc(struct bench_pmo *pmo, size_t size)
{
    return lib.tx_alloc(size, 0, pmo->class_flag).off;
}

int bench_pmo_free(struct bench_pmo *pmo, uint64_t offset)
{
    PMEMoid oid = { .pool_uuid_lo = pmo->identity, .off = offset };
    return lib.tx_free(oid);
}

/* Bytes that are allocated. */
uint64_t bench_pmo_allocated(struct bench_pmo *pmo)
{
    uint64_t bytes = 0;
    return lib.ctl_get(pmo->pool, "stats.heap.curr_allocated", &bytes) == 0 ? bytes : 0;
}

const char *bench_pmo_error(int code)
{
    if (lib.handle == NULL)
        return code == ENOENT ? "libpmemobj.so.1 is not here" : "libpmemobj.so.1 lacks a function";
    const char *text = lib.errormsg();
    return text != NULL && *text != 0 ? text : strerror(code);
}
