"""What may go wrong with a database over the VFS `tembo`: no space, a kill in the midst of COMMIT, other files beside it.

    faults.py LIBRARY MODE POOL [WORD]
"""

import glob
import os
import resource
import signal
import sqlite3
import sys
import time

LIBRARY, MODE, POOL = sys.argv[1:4]
FOLDER = os.path.dirname(POOL)
ORDINARY = os.path.join(FOLDER, "ordinary.db")
# The most bytes of a file while one of these finds no space: more than an ordinary file and its journal have, fewer than it is to have.
SPACE = 16 << 20
ROWS = 2000

loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(LIBRARY)


def connect(place=POOL, more="", patience=60):
    return opened(f"file:{place}?vfs=tembo{more}", patience)


def opened(uri, patience=60):
    # Of a pragma that is kept, SQLite does nothing at the second time.
    return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, cached_statements=0)


def one(connection, sql):
    return connection.execute(sql).fetchone()[0]


def refused(connection, sql, what):
    try:
        connection.execute(sql)
    except sqlite3.Error as error:
        assert what in str(error), error
        return
    raise AssertionError(f"{sql} was not refused")


def done_soon(connection, sql):
    """Does it in a pool that takes its space back from a transaction that is over."""
    end = time.monotonic() + 60
    while True:
        try:
            return connection.execute(sql)
        except sqlite3.OperationalError as error:
            assert "full" in str(error) and time.monotonic() < end, error
            time.sleep(0.005)


def set_space(bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, resource.RLIM_INFINITY))


def make_ordinary():
    """An ordinary database, with a page for each row."""
    file = opened(f"file:{ORDINARY}?vfs=unix")
    file.execute("create table o(id integer primary key, n, body)")
    file.execute("begin")
    file.executemany("insert into o values(?, 0, zeroblob(3500))", [(id,) for id in range(ROWS)])
    file.execute("commit")
    file.close()


def attached_to_a_pool(place=POOL):
    """A connection with a database of a pool, and with an ordinary one behind it."""
    make_ordinary()
    both = connect(place)
    both.execute("create table t(x)")
    both.execute("insert into t values(0)")
    both.execute(f"attach 'file:{ORDINARY}?vfs=unix' as other")
    both.execute("pragma other.cache_size = -200000")
    return both


def change(both, n, more=0):
    """Begins a transaction of both."""
    both.execute("begin")
    both.execute(f"update t set x = {n}")
    both.execute(f"update o set n = {n}")
    rows = [(id,) for id in range(ROWS, ROWS + more)]
    both.executemany("insert into o values(?, 0, zeroblob(3500))", rows)


def both_are(n, place=POOL):
    """What a new connection of each finds, and that nothing is left beside them."""
    file = opened(f"file:{ORDINARY}?vfs=unix")
    assert one(file, "pragma integrity_check") == "ok"
    found = file.execute("select count(*), min(n), max(n) from o").fetchone()
    assert found == (ROWS, n, n), found
    file.close()
    pool = connect(place)
    assert one(pool, "select x from t") == n
    assert one(pool, "pragma integrity_check") == "ok"
    pool.close()
    left = [name for name in os.listdir(FOLDER) if "-mj" in name or name.endswith("-journal")]
    assert left == [], left


def cut():
    both = attached_to_a_pool()
    change(both, 1, more=2 * ROWS)
    # It is killed while SQLite writes the pages of the ordinary file.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    set_space(SPACE)
    both.execute("commit")


def after_the_cut():
    assert glob.glob(os.path.join(FOLDER, "*-mj*")) != []
    both_are(0)
    both = connect()
    both.execute(f"attach 'file:{ORDINARY}?vfs=unix' as other")
    change(both, 2)
    both.execute("commit")
    both_are(2)


def pairs():
    """Changes both, until it is killed; says what is committed."""
    if not os.path.exists(ORDINARY):
        attached_to_a_pool().close()
    both = connect()
    both.execute(f"attach 'file:{ORDINARY}?vfs=unix' as other")
    # All pages are written by the commit.
    both.execute("pragma other.cache_size = -200000")
    n = one(both, "select x from t")
    while True:
        n += 1
        change(both, n)
        both.execute("commit")
        print(n, flush=True)


def after_pairs():
    """What the file has, and the pool."""
    file = opened(f"file:{ORDINARY}?vfs=unix")
    assert one(file, "pragma integrity_check") == "ok"
    least, most = file.execute("select min(n), max(n) from o").fetchone()
    assert least == most, (least, most)
    pool = connect()
    assert one(pool, "pragma integrity_check") == "ok"
    print(least, one(pool, "select x from t"))


def no_space_for_the_ordinary_file():
    both = attached_to_a_pool()
    change(both, 1, more=2 * ROWS)
    set_space(SPACE)
    refused(both, "commit", "disk")
    assert not both.in_transaction
    assert one(both, "select x from t") == 0
    assert one(both, "select max(n) from o") == 0
    both_are(0)
    set_space(resource.RLIM_INFINITY)
    change(both, 3)
    both.execute("commit")
    both_are(3)
    assert one(both, "select x from t") == 3


def an_ordinary_file_comes_first():
    make_ordinary()
    made = connect()
    made.execute("create table t(x)")
    made.execute("insert into t values(0)")
    both = opened(f"file:{ORDINARY}?vfs=unix")
    both.execute(f"attach 'file:{POOL}?vfs=tembo' as pool")
    for _ in range(2):
        change(both, 1)
        refused(both, "commit", "SQL logic error")
        assert not both.in_transaction
        assert one(both, "select x from t") == 0
        assert one(both, "select max(n) from o") == 0
        both_are(0)
    # One at a time, and with a WAL file by file.
    both.execute("update t set x = 2")
    both.execute("update o set n = 2")
    both_are(2)
    assert one(both, "pragma main.journal_mode = wal") == "wal"
    change(both, 3)
    both.execute("commit")
    assert one(both, "pragma main.journal_mode = delete") == "delete"
    both_are(3)
    # The other way round.
    turned = connect()
    turned.execute(f"attach 'file:{ORDINARY}?vfs=unix' as other")
    both.close()
    change(turned, 4)
    turned.execute("commit")
    both_are(4)


def a_pool_of_several_has_no_place_for_a_super_journal():
    connect().execute("create table any(x)")
    place = f"{POOL}/orders"
    both = attached_to_a_pool(place)
    for _ in range(2):
        change(both, 1)
        refused(both, "commit", "SQL logic error")
        if both.in_transaction:
            both.execute("rollback")
        assert one(both, "select x from t") == 0
        both_are(0, place)
    # In memory there is no journal.
    both.execute("attach 'file:/none?vfs=memdb' as memory")
    both.execute("create table memory.m(x)")
    both.execute(f"attach 'file:{POOL}?vfs=tembo' as pool")
    both.execute("begin")
    both.execute("update t set x = 5")
    both.execute("insert into m values(5)")
    both.execute("insert into any values(5)")
    both.execute("commit")
    both.execute("update o set n = 5")
    both_are(5, place)


def a_full_pool():
    """The owner's pool does not grow."""
    a = connect(f"{POOL}/one")
    a.execute(f"attach 'file:{POOL}/two?vfs=tembo' as two")
    for name in ["main", "two"]:
        a.execute(f"pragma {name}.cache_size = -100000")
    a.execute("create table t(x)")
    a.execute("insert into t values(1)")
    a.execute("create table two.big(y)")
    b = connect(f"{POOL}/one")
    for n in range(3):
        a.execute("begin")
        a.execute("update t set x = 7")
        a.executemany("insert into big values(?)", [(os.urandom(500_000),) for _ in range(16)])
        refused(a, "commit", "full")
        assert not a.in_transaction
        # With it the change counter is what it was in the commit that failed.
        done_soon(b, "update t set x = x + 99")
        assert one(a, "select x from t") == 100 + 100 * n
        done_soon(a, "update t set x = x + 1")
        assert one(b, "select x from t") == 101 + 100 * n
        assert one(a, "select count(*) from big") == 0
        for name in ["main", "two"]:
            assert one(a, f"pragma {name}.integrity_check") == "ok"


def a_full_pool_and_an_ordinary_file():
    """The same, and the pool commits first."""
    both = attached_to_a_pool()
    both.execute("create table big(y)")
    both.execute("pragma main.cache_size = -100000")
    for n in range(2):
        change(both, 1)
        both.executemany("insert into big values(?)", [(os.urandom(500_000),) for _ in range(16)])
        refused(both, "commit", "full")
        assert not both.in_transaction
        assert one(both, "select x from t") == 0
        assert one(both, "select max(n) from o") == 0
        both_are(0)
    done_soon(both, "update t set x = 0")
    change(both, 2)
    both.execute("commit")
    both_are(2)


def a_database_with_a_wal_is_copied_in():
    wal = opened(f"file:{FOLDER}/wal.db?vfs=unix")
    assert one(wal, "pragma journal_mode = wal") == "wal"
    wal.execute("create table z(a)")
    wal.executemany("insert into z values(?)", [(n,) for n in range(500)])
    inside, beside = connect(), connect()
    for count in [500, 501]:
        wal.backup(inside)
        for connection in [inside, beside, connect()]:
            assert one(connection, "select count(*) from z") == count
            assert one(connection, "pragma integrity_check") == "ok"
        wal.execute("insert into z values(0)")
    inside.execute("insert into z values(0)")
    beside.execute("insert into z values(0)")
    assert one(inside, "select count(*) from z") == 503
    # And out again.
    out = sqlite3.connect(":memory:")
    beside.backup(out)
    assert one(out, "select count(*) from z") == 503


def a_connection_that_keeps_its_locks_keeps_writers_out():
    other = connect(patience=0)
    other.execute("create table kept(x)")
    other.execute("insert into kept values(1)")
    alone = connect(patience=0)
    alone.execute("pragma locking_mode = exclusive")
    assert one(alone, "select x from kept") == 1
    refused(other, "update kept set x = 2", "locked")
    second = connect(patience=0)
    second.execute("pragma locking_mode = exclusive")
    refused(second, "select x from kept", "locked")
    assert one(other, "select x from kept") == 1
    alone.execute("update kept set x = x + 10")
    for connection in [alone, other]:
        assert one(connection, "select x from kept") == 11
    refused(other, "update kept set x = 2", "locked")
    # The lock goes with the next transaction.
    alone.execute("pragma locking_mode = normal")
    assert one(alone, "select x from kept") == 11
    other.execute("update kept set x = 12")
    assert one(alone, "select x from kept") == 12
    # In the midst of a transaction it reads what another has changed since.
    alone.execute("begin")
    assert one(alone, "select x from kept") == 12
    other.execute("update kept set x = 13")
    refused(alone, "pragma locking_mode = exclusive", "locked")
    assert one(alone, "select x from kept") == 12
    alone.execute("commit")
    alone.execute("begin")
    assert one(alone, "select x from kept") == 13
    alone.execute("pragma locking_mode = exclusive")
    refused(other, "update kept set x = 14", "locked")
    alone.execute("commit")
    refused(other, "update kept set x = 14", "locked")
    alone.execute("update kept set x = 15")
    alone.close()
    assert one(second, "select x from kept") == 15
    second.close()
    other.execute("update kept set x = 16")


def a_shared_cache_is_of_one_version_and_of_one_pool():
    now = connect(more="&cache=shared")
    now.execute("create table s(x)")
    now.execute("insert into s values('monday')")
    version = one(now, "pragma tembo_snapshot = monday")
    now.execute("update s set x = 'now'")
    for more in ["&snapshot=monday", f"&version={version}"]:
        then = connect(more=f"{more}&cache=shared")
        assert one(then, "select x from s") == "monday", more
        refused(then, "delete from s", "readonly")
    assert one(connect(more="&cache=shared"), "select x from s") == "now"
    pools = [os.path.join(FOLDER, name) for name in ["a.pool", "b.pool"]]
    orders = [connect("orders", f"&pool={pool}&cache=shared") for pool in pools]
    for pool, connection in zip(pools, orders):
        connection.execute("create table of_pool(x)")
        connection.execute("insert into of_pool values(?)", (pool,))
    for pool, connection in zip(pools, orders):
        assert one(connection, "select x from of_pool") == pool
        assert one(connect(f"{pool}/orders"), "select x from of_pool") == pool


def fill():
    db = connect()
    db.execute("create table big(id integer primary key, n, body)")
    db.execute("begin")
    db.executemany("insert into big values(?, 0, zeroblob(3500))", [(id,) for id in range(6000)])
    db.execute("commit")


def peak():
    """The most KiB of memory that a process has had, with this journal mode."""
    db = connect()
    db.execute(f"pragma journal_mode = {sys.argv[4]}")
    db.execute("pragma cache_size = -1000")
    db.execute("begin")
    db.execute("update big set n = n + 1")
    with open("/proc/self/status") as status:
        print(*[line.split()[1] for line in status if line.startswith("VmHWM")], flush=True)
    if sys.argv[4] == "delete":
        db.execute("rollback")
        assert one(db, "select sum(n) from big") == 0
    os._exit(0)


globals()[MODE]()
print("done")
