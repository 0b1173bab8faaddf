/*
 * Berkeley DB's methods are pointers in structures whose layout is its own business: this gives them
 * names that Rust can call. Each function returns 0, DB_NOTFOUND or DB_BUFFER_SMALL (named below), or
 * what db_strerror explains.
 */
#include <db.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A value of 2 KiB stays within a page of 16 KiB: longer than a quarter of one it would go elsewhere. */
#define PAGE_SIZE (16 * 1024)
#define LOG_BUFFER (8 << 20)
/* A checkpoint is taken when the log has grown by so much: without any, recovery would read all of it. */
#define CHECKPOINT_KIB (64 * 1024)
/* Where entries are a few bytes: a page is what a transaction locks. */
#define PAGE_SIZE_SMALL (4 * 1024)
/* Of pages that a transaction of many keys may lock. */
#define LOCKS_MAX 100000

struct bench_bdb {
    DB_ENV *env;
    DB *db;
};

const int bench_bdb_not_found = DB_NOTFOUND;
const int bench_bdb_buffer_small = DB_BUFFER_SMALL;
const int bench_bdb_deadlock = DB_LOCK_DEADLOCK;

void bench_bdb_close(struct bench_bdb *handle)
{
    if (handle->db != NULL)
        handle->db->close(handle->db, 0);
    if (handle->env != NULL)
        handle->env->close(handle->env, 0);
    free(handle);
}

static int open_all(struct bench_bdb *handle, const char *folder, int transactions, size_t cache,
                    u_int32_t page_size, DBTYPE type)
{
    u_int32_t flags = DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_MPOOL;
    int code = db_env_create(&handle->env, 0);
    if (code != 0)
        return code;
    DB_ENV *env = handle->env;
    u_int32_t gib = (u_int32_t)(cache >> 30), rest = (u_int32_t)(cache & (((size_t)1 << 30) - 1));
    if ((code = env->set_cachesize(env, gib, rest, 1)) != 0)
        return code;
    if (transactions) {
        flags |= DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK | DB_RECOVER;
        if ((code = env->set_lk_max_locks(env, LOCKS_MAX)) != 0)
            return code;
        if ((code = env->set_lk_max_objects(env, LOCKS_MAX)) != 0)
            return code;
        if ((code = env->set_lg_bsize(env, LOG_BUFFER)) != 0)
            return code;
        if ((code = env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1)) != 0)
            return code;
        if ((code = env->set_lk_detect(env, DB_LOCK_DEFAULT)) != 0)
            return code;
    }
    if ((code = env->open(env, folder, flags, 0600)) != 0)
        return code;
    if ((code = db_create(&handle->db, env, 0)) != 0)
        return code;
    DB *db = handle->db;
    if ((code = db->set_pagesize(db, page_size)) != 0)
        return code;
    flags = DB_CREATE | DB_THREAD | (transactions ? DB_AUTO_COMMIT : 0);
    return db->open(db, NULL, "bench.db", NULL, type, flags, 0600);
}

static int opened(const char *folder, int transactions, size_t cache, u_int32_t page_size,
                  DBTYPE type, struct bench_bdb **out)
{
    struct bench_bdb *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        return ENOMEM;
    int code = open_all(handle, folder, transactions, cache, page_size, type);
    if (code != 0) {
        bench_bdb_close(handle);
        return code;
    }
    *out = handle;
    return 0;
}

int bench_bdb_open(const char *folder, int transactions, size_t cache, struct bench_bdb **out)
{
    return opened(folder, transactions, cache, PAGE_SIZE, DB_BTREE, out);
}

/* With transactions, for keys and values of a few bytes: a hash table, or a B-tree. */
int bench_bdb_open_small(const char *folder, int hashed, size_t cache, struct bench_bdb **out)
{
    return opened(folder, 1, cache, PAGE_SIZE_SMALL, hashed ? DB_HASH : DB_BTREE, out);
}

static DBT dbt(const void *data, size_t len)
{
    DBT dbt;
    memset(&dbt, 0, sizeof dbt);
    dbt.data = (void *)data;
    dbt.size = (u_int32_t)len;
    dbt.ulen = (u_int32_t)len;
    dbt.flags = DB_DBT_USERMEM;
    return dbt;
}

int bench_bdb_put(struct bench_bdb *h, const void *k, size_t klen, const void *v, size_t vlen)
{
    DBT key = dbt(k, klen), value = dbt(v, vlen);
    return h->db->put(h->db, NULL, &key, &value, 0);
}

int bench_bdb_get(struct bench_bdb *h, const void *k, size_t klen, void *v, size_t *vlen)
{
    DBT key = dbt(k, klen), value = dbt(v, *vlen);
    int code = h->db->get(h->db, NULL, &key, &value, 0);
    *vlen = value.size;
    return code;
}

int bench_bdb_del(struct bench_bdb *h, const void *k, size_t klen)
{
    DBT key = dbt(k, klen);
    return h->db->del(h->db, NULL, &key, 0);
}

/* A transaction: begun, changed and ended. One that could not be committed is gone. */
int bench_bdb_begin(struct bench_bdb *h, DB_TXN **txn)
{
    return h->env->txn_begin(h->env, NULL, txn, 0);
}

int bench_bdb_txn_put(struct bench_bdb *h, DB_TXN *txn, const void *k, size_t klen, const void *v,
                      size_t vlen)
{
    DBT key = dbt(k, klen), value = dbt(v, vlen);
    return h->db->put(h->db, txn, &key, &value, 0);
}

int bench_bdb_txn_del(struct bench_bdb *h, DB_TXN *txn, const void *k, size_t klen)
{
    DBT key = dbt(k, klen);
    return h->db->del(h->db, txn, &key, 0);
}

/* `changes`: locked as for a write, since one follows. */
int bench_bdb_txn_get(struct bench_bdb *h, DB_TXN *txn, const void *k, size_t klen, void *v,
                      size_t *vlen, int changes)
{
    DBT key = dbt(k, klen), value = dbt(v, *vlen);
    int code = h->db->get(h->db, txn, &key, &value, changes ? DB_RMW : 0);
    *vlen = value.size;
    return code;
}

int bench_bdb_end(struct bench_bdb *h, DB_TXN *txn, int commits)
{
    if (!commits)
        return txn->abort(txn);
    int code = txn->commit(txn, 0);
    return code != 0 ? code : h->env->txn_checkpoint(h->env, CHECKPOINT_KIB, 0, 0);
}

/* Whether a commit waits for the log to be synced from here on. */
int bench_bdb_sync_commits(struct bench_bdb *h, int synced)
{
    return h->env->set_flags(h->env, DB_TXN_NOSYNC, !synced);
}

/* Writes all pages, so that the file has its size. */
int bench_bdb_flush(struct bench_bdb *h)
{
    return h->db->sync(h->db, 0);
}

/* Visits up to *count entries from a key on, and says how many there were. Both buffers are scratch. */
int bench_bdb_scan(struct bench_bdb *h, void *k, size_t klen, size_t kroom, void *v, size_t vroom,
                   size_t *count)
{
    DBC *cursor = NULL;
    size_t wanted = *count;
    int code = h->db->cursor(h->db, NULL, &cursor, 0);
    *count = 0;
    if (code != 0)
        return code;
    DBT key = dbt(k, klen), value = dbt(v, vroom);
    key.ulen = (u_int32_t)kroom;
    code = cursor->get(cursor, &key, &value, DB_SET_RANGE);
    while (code == 0 && ++*count < wanted)
        code = cursor->get(cursor, &key, &value, DB_NEXT);
    cursor->close(cursor);
    return code == DB_NOTFOUND ? 0 : code;
}

const char *bench_bdb_error(int code)
{
    return db_strerror(code);
}
