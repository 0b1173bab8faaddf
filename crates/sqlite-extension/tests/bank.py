"""A bank in SQL over the VFS `tembo`, in an unmodified Python: several writers and readers, in one process or in several.

    bank.py LIBRARY run POOL           transfers money until it is killed; says what is committed
    bank.py LIBRARY write POOL WRITER  the same with one writer and one reader, beside other processes
    bank.py LIBRARY check POOL         says what is there
    bank.py LIBRARY features POOL      what a database can do
    bank.py LIBRARY hold POOL          has the database open until its input ends
    bank.py LIBRARY lock POOL          has a transaction open until it is killed
    bank.py LIBRARY fork POOL          has the database open, and a child, until its input ends
    bank.py LIBRARY lose POOL          has transactions open while the owner of the pool is killed
"""

import os
import random
import sqlite3
import sys
import threading
import time

ACCOUNTS, EACH = 40, 1000
WRITERS = 4
LIBRARY, MODE, POOL = sys.argv[1:4]



def end_at_an_error(error):
    """A thread that fails fails the program."""
    sys.__excepthook__(error.exc_type, error.exc_value, error.exc_traceback)
    os._exit(1)


threading.excepthook = end_at_an_error
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(LIBRARY)


def connect(pool=POOL, more="", patience=60):
    uri = f"file:{pool}?vfs=tembo{more}"
    end = time.monotonic() + 60
    while True:
        try:
            return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            # The owner of the pool has not begun to serve.
            if "locked" not in str(error) or time.monotonic() > end:
                raise


def one(connection, sql):
    return connection.execute(sql).fetchone()[0]


def refused(connection, sql, what):
    try:
        connection.execute(sql)
    except sqlite3.Error as error:
        assert what in str(error), error
        return
    raise AssertionError(f"{sql} was not refused")


def make(connection):
    connection.execute("begin immediate")
    connection.execute("create table if not exists account(id integer primary key, sum integer)")
    connection.execute("create table if not exists log(writer integer, n integer, primary key(writer, n))")
    if one(connection, "select count(*) from account") == 0:
        connection.executemany("insert into account values(?, ?)", [(i, EACH) for i in range(ACCOUNTS)])
    connection.execute("commit")


def transfer(connection, writer, n):
    a, b = random.sample(range(ACCOUNTS), 2)
    connection.execute("begin immediate")
    connection.execute("update account set sum = sum - 3 where id = ?", (a,))
    connection.execute("update account set sum = sum + 3 where id = ?", (b,))
    connection.execute("insert into log values(?, ?)", (writer, n))
    connection.execute("commit")


def choose_level(connection):
    """How durable commits are: a process is killed, and not the machine, so any level keeps them."""
    levels = [["synchronous = full"], ["synchronous = off"], ["journal_mode = wal", "synchronous = normal"]]
    for pragma in random.choice(levels):
        connection.execute("pragma " + pragma)


def write(writer, print_lock, count=1 << 60):
    connection = connect()
    choose_level(connection)
    n = one(connection, f"select coalesce(max(n), -1) + 1 from log where writer = {writer}")
    for n in range(n, n + count):
        transfer(connection, writer, n)
        with print_lock:
            print(writer, n, flush=True)
    connection.close()


def read(stop):
    connection = connect()
    while not stop.is_set():
        assert one(connection, "select sum(sum) from account") == ACCOUNTS * EACH
    connection.close()


def is_of_a_lost_owner(error):
    return "disk I/O error" in str(error) or "locked" in str(error)


def go_on(connection, error):
    """After an error that the end of the owner explains: the transaction is lost, the connection is not."""
    if not is_of_a_lost_owner(error):
        raise error
    print("lost", error, flush=True)
    if connection.in_transaction:
        connection.execute("rollback")


def last_of(connection, writer):
    return one(connection, f"select coalesce(max(n), -1) from log where writer = {writer}")


def retried(connection, work):
    end = time.monotonic() + 60
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if time.monotonic() > end:
                raise
            go_on(connection, error)


def write_beside_others(writer):
    connection = connect()
    choose_level(connection)
    while True:
        n = retried(connection, lambda: last_of(connection, writer)) + 1
        try:
            transfer(connection, writer, n)
        except sqlite3.OperationalError as error:
            # A commit that the owner's end cut short is there, or it is not.
            go_on(connection, error)
            continue
        print(writer, n, flush=True)


def read_beside_others():
    connection = connect()
    while True:
        total = retried(connection, lambda: one(connection, "select sum(sum) from account"))
        if total != ACCOUNTS * EACH:
            print("sum", total, flush=True)
            os._exit(1)


def write_mode():
    connection = connect()
    retried(connection, lambda: make(connection))
    threading.Thread(target=read_beside_others, daemon=True).start()
    write_beside_others(int(sys.argv[4]))


def hold():
    connection = connect()
    one(connection, "select count(*) from sqlite_master")
    print("ready", flush=True)
    sys.stdin.read()
    connection.close()


def lock():
    connection = connect()
    connection.execute("begin immediate")
    connection.execute("update account set sum = 0")
    print("ready", flush=True)
    sys.stdin.read()


def fork():
    connection = connect()
    make(connection)
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print("ready", flush=True)
    threading.Event().wait()


def lose():
    writer, reader = connect(), connect()
    make(writer)
    writer.execute("create table lost(x)")
    schema = one(writer, "pragma schema_version")
    writer.execute("insert into lost values('committed')")
    reader.execute("begin")
    assert one(reader, "select sum(sum) from account") == ACCOUNTS * EACH
    writer.execute("begin immediate")
    writer.execute("insert into lost values('not committed')")
    print("ready", flush=True)
    sys.stdin.readline()
    # The owner is gone.
    refused(writer, "commit", "disk I/O error")
    if writer.in_transaction:
        writer.execute("rollback")
    refused(reader, "select * from lost", "disk I/O error")
    if reader.in_transaction:
        reader.execute("rollback")
    writer.execute("insert into lost values('later')")
    for connection in [writer, reader]:
        found = [row[0] for row in connection.execute("select x from lost order by rowid")]
        assert found == ["committed", "later"], found
        assert one(connection, "pragma integrity_check") == "ok"
        # What makes SQLite read the schema again is seen by no program, and stays nowhere.
        assert one(connection, "pragma schema_version") == schema
    reader.execute("create table more(x)")
    for connection in [writer, reader, connect()]:
        assert one(connection, "pragma schema_version") == schema + 1
    print("done", flush=True)


def start(*jobs):
    threads = [threading.Thread(target=job, args=arguments) for job, *arguments in jobs]
    for thread in threads:
        thread.start()
    return threads


def run():
    make(connect())
    lock = threading.Lock()
    start((write, 0, lock), (write, 1, lock), (read, threading.Event()))


def check():
    connection = connect()
    print(one(connection, "pragma integrity_check"))
    print(one(connection, "select sum(sum) from account"))
    for writer in range(WRITERS):
        log = f"from log where writer = {writer}"
        last = one(connection, f"select coalesce(max(n), -1) {log}")
        assert one(connection, f"select count(*) {log}") == last + 1, "a commit is missing before another"
        print(last)
    connection.close()


def readers_do_not_wait():
    reader, writer = connect(), connect()
    reader.execute("begin")
    total = one(reader, "select sum(sum) from account")
    writer.execute("update account set sum = sum + 1")
    assert one(reader, "select sum(sum) from account") == total
    refused(reader, "update account set sum = 0", "locked")
    reader.execute("commit")
    assert one(reader, "select sum(sum) from account") == total + ACCOUNTS
    writer.execute("update account set sum = sum - 1")
    writer.execute("begin immediate")
    refused(connect(patience=0), "update account set sum = 0", "locked")
    assert one(reader, "select sum(sum) from account") == total
    writer.execute("rollback")
    writer.close()
    reader.close()


def spills_roll_back_and_commit():
    writer, reader = connect(), connect()
    writer.execute("pragma cache_size = 10")
    writer.execute("create table big(x)")
    rows = [(os.urandom(3000),) for _ in range(600)]
    for end, left in [("rollback", 0), ("commit", 600)]:
        writer.execute("begin")
        writer.executemany("insert into big values(?)", rows)
        assert one(writer, "select count(*) from big") == 600
        assert one(reader, "select count(*) from big") == 0
        writer.execute("savepoint s")
        writer.execute("delete from big")
        writer.execute("rollback to s")
        writer.execute(end)
        assert one(reader, "select count(*) from big") == left
    refused(writer, "insert into account select id + 30, 1 from account order by id desc", "UNIQUE")
    assert one(writer, "select count(*) from account") == ACCOUNTS
    writer.execute("drop table big")
    writer.execute("vacuum")
    assert one(reader, "pragma integrity_check") == "ok"
    writer.close()
    reader.close()


def caches_are_dropped_when_another_connection_commits():
    # What changes nothing of page 1 but its counter, and what changes more of it, in turn.
    one_, two = connect(), connect()
    one_.execute("create table cached(x integer primary key, y)")
    one_.execute("insert into cached values(1, 0)")
    for n in range(1, 60):
        writer, reader = (one_, two) if n % 2 else (two, one_)
        writer.execute("update cached set y = y + 1")
        assert one(writer, "select y from cached") == n
        assert one(reader, "select y from cached") == n
        if n % 7 == 0:
            writer.execute(f"pragma user_version = {n}")
            assert one(reader, "pragma user_version") == n
        if n % 11 == 0:
            reader.execute("begin immediate")
            reader.execute("update cached set y = -1")
            reader.execute("rollback")
            reader.execute("create table if not exists more(x)")
            reader.execute("insert into more values(zeroblob(9000))")
            assert one(writer, "select count(*) from more") == n // 11
    for connection in [one_, two]:
        assert one(connection, "pragma integrity_check") == "ok"
        connection.execute("pragma user_version = 0")
    one_.execute("drop table cached")
    two.execute("drop table more")
    one_.close()
    two.close()


def pages_that_have_changed_are_read_again():
    # A reader's own cache holds few of the pages, which change here and there.
    writer, reader = connect(), connect()
    reader.execute("pragma cache_size = 10")
    writer.execute("create table spread(id integer primary key, n integer, body)")
    writer.execute("begin")
    writer.executemany("insert into spread values(?, 0, zeroblob(900))", [(id,) for id in range(800)])
    writer.execute("commit")
    expected = [0] * 800
    for round in range(120):
        ids, is_kept = random.sample(range(800), 1 + round % 4), round % 5 != 4
        writer.execute("begin immediate")
        writer.executemany("update spread set n = n + 1 where id = ?", [(id,) for id in ids])
        writer.execute("commit" if is_kept else "rollback")
        for id in ids:
            expected[id] += is_kept
        if round % 50 == 40:
            writer.execute(f"update spread set body = zeroblob({round * 10})")
            writer.execute("vacuum")
        for connection in [reader, writer]:
            for id in ids + random.sample(range(800), 12):
                found = one(connection, f"select n from spread where id = {id}")
                assert found == expected[id], (round, id, found, expected[id])
        if round % 20 == 0:
            assert one(reader, "select sum(n) from spread") == sum(expected)
    assert one(reader, "pragma integrity_check") == "ok"
    writer.execute("drop table spread")
    writer.close()
    reader.close()


def every_mode_commits_and_rolls_back():
    reader = connect()
    for mode in ["delete", "truncate", "persist", "memory", "wal"]:
        for sync in ["off", "normal", "full", "extra"]:
            writer = connect()
            assert one(writer, f"pragma journal_mode = {mode}") == mode
            writer.execute(f"pragma synchronous = {sync}")
            writer.execute("begin")
            writer.execute("update account set sum = sum + 1 where id = 3")
            writer.execute("update account set sum = sum - 1 where id = 4")
            writer.execute("commit")
            writer.execute("begin")
            writer.execute("update account set sum = 7")
            writer.execute("rollback")
            for connection in [writer, reader]:
                assert one(connection, "select sum(sum) from account") == ACCOUNTS * EACH, (mode, sync)
            writer.close()
    writer = connect()
    writer.execute("pragma locking_mode = exclusive")
    writer.execute("update account set sum = sum + 5 where id = 0")
    writer.execute("update account set sum = sum - 5 where id = 1")
    writer.execute("begin")
    writer.execute("update account set sum = 0")
    writer.execute("rollback")
    for connection in [writer, reader]:
        assert one(connection, "select sum(sum) from account") == ACCOUNTS * EACH
    refused(connect(patience=0), "update account set sum = 0", "locked")
    writer.close()
    reader.close()


def a_writer_that_keeps_its_lock_is_seen():
    writer, reader = connect(), connect()
    before = one(reader, "select sum from account where id = 0")
    writer.execute("pragma locking_mode = exclusive")
    for n in range(1, 6):
        writer.execute(f"update account set sum = {n} where id = 0")
        if n == 3:
            # On page 1 SQLite writes the counter that it has.
            writer.execute("create table more(x)")
        assert one(reader, "select sum from account where id = 0") == n, n
    writer.execute("drop table more")
    writer.close()
    reader.execute("update account set sum = sum + 1 where id = 0")
    other = connect()
    for connection in [reader, other]:
        assert one(connection, "select sum from account where id = 0") == 6
        assert one(connection, "pragma integrity_check") == "ok"
    reader.execute(f"update account set sum = {before} where id = 0")
    reader.close()
    other.close()


def attached_files_of_a_pool_commit_together():
    for name in ["second", "third"]:
        made = connect(f"{POOL}/{name}")
        made.execute("create table t(x unique)")
        made.close()
    all = connect()
    all.execute(f"attach 'file:{POOL}/second?vfs=tembo' as second")
    all.execute(f"attach 'file:{POOL}/third?vfs=tembo' as third")
    version = int(one(all, "pragma tembo_version"))
    for end, left in [("commit", 1), ("rollback", 1)]:
        all.execute("begin")
        all.execute("update account set sum = sum")
        all.execute(f"insert into second.t values('{end}')")
        all.execute(f"insert into third.t values('{end}')")
        all.execute(end)
        for name in ["second", "third"]:
            assert one(all, f"select count(*) from {name}.t") == left
    # One commit, whatever the number of files.
    assert int(one(all, "pragma tembo_version")) == version + 1
    all.close()


def the_past_is_read():
    now = connect()
    now.execute("create table then_(x)")
    now.execute("insert into then_ values('before')")
    assert int(one(now, "pragma tembo_snapshot = monday")) > 0
    now.execute("update then_ set x = 'after'")
    monday = connect(more="&snapshot=monday")
    assert one(monday, "select x from then_") == "before"
    refused(monday, "delete from then_", "readonly")
    monday.close()
    assert "monday|" in one(now, "pragma tembo_snapshots")
    assert one(now, "pragma tembo_drop_snapshot = monday") == "1"
    now.close()


def ordinary_files_come_in_and_out():
    folder = os.path.dirname(POOL)
    plain, imported, exported = (os.path.join(folder, name) for name in ["plain.db", "in.pool", "out.db"])
    # With a WAL that nothing has checkpointed.
    source = sqlite3.connect(plain, isolation_level=None)
    source.execute("pragma journal_mode = wal")
    source.execute("create table z(a)")
    source.executemany("insert into z values(?)", [(i,) for i in range(500)])
    reader = sqlite3.connect(f"file:{plain}", uri=True, isolation_level=None)
    reader.execute(f"vacuum into 'file:{imported}?vfs=tembo'")
    inside = connect(imported)
    inside.execute("insert into z values(500)")
    assert one(inside, "select count(*) from z") == 501
    assert one(inside, "pragma integrity_check") == "ok"
    inside.execute(f"vacuum into 'file:{exported}?vfs=unix'")
    assert one(sqlite3.connect(exported), "select count(*) from z") == 501
    inside.close()
    try:
        connect(plain).execute("select 1 from z")
    except sqlite3.DatabaseError:
        return
    raise AssertionError("an ordinary file was opened as a pool")


def a_fork_is_detected():
    parent = connect()
    parent.execute("create table forked(x)")
    # Not in the connection's cache.
    parent.execute("insert into forked values(1)")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            refused(parent, "select * from forked", "misuse")
            refused(parent, "insert into forked values(2)", "misuse")
            parent.close()
            own = connect()
            own.execute("insert into forked values(3)")
            own.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [row[0] for row in parent.execute("select x from forked order by x")] == [1, 3]
    parent.execute("drop table forked")
    parent.close()


def a_log_without_its_pool_is_not_overwritten():
    removed = os.path.join(os.path.dirname(POOL), "removed.pool")
    made = connect(removed)
    made.execute("create table t(x)")
    made.close()
    os.remove(removed)
    # Where persistent memory is mapped, there is no log.
    if os.path.exists(removed + ".log"):
        try:
            connect(removed)
        except sqlite3.OperationalError as error:
            assert "unable to open" in str(error), error
        else:
            raise AssertionError("a log was overwritten")
        os.remove(removed + ".log")
    again = connect(removed)
    assert one(again, "select count(*) from sqlite_master") == 0
    again.close()


def a_database_that_was_removed_is_not_found_again():
    again = os.path.join(os.path.dirname(POOL), "again.pool")
    # What lies beside the pool goes with it, or the socket stays.
    for ends in [["", ".log", ".sock"], ["", ".log"]]:
        old = connect(again)
        old.execute("create table old(x)")
        for end in ends:
            if os.path.exists(again + end):
                os.remove(again + end)
        new = connect(again)
        assert one(new, "select count(*) from sqlite_master") == 0
        new.execute("create table new(x)")
        # A connection that has it open goes on with what was removed, as with a file.
        assert one(old, "select count(*) from old") == 0
        old.close()
        other = connect(again)
        assert one(other, "select count(*) from new") == 0
        new.close()
        other.close()
        later = connect(again)
        assert one(later, "select group_concat(name) from sqlite_master") == "new"
        later.execute("drop table new")
        later.close()
        for end in ["", ".log"]:
            if os.path.exists(again + end):
                os.remove(again + end)


def features():
    make(connect())
    a_fork_is_detected()
    readers_do_not_wait()
    spills_roll_back_and_commit()
    caches_are_dropped_when_another_connection_commits()
    pages_that_have_changed_are_read_again()
    every_mode_commits_and_rolls_back()
    a_writer_that_keeps_its_lock_is_seen()
    attached_files_of_a_pool_commit_together()
    the_past_is_read()
    ordinary_files_come_in_and_out()
    a_log_without_its_pool_is_not_overwritten()
    a_database_that_was_removed_is_not_found_again()
    lock, stop = threading.Lock(), threading.Event()
    readers = start((read, stop), (read, stop))
    for thread in start((write, 0, lock, 60), (write, 1, lock, 60)):
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    print("done")


MODES = {
    "run": run,
    "write": write_mode,
    "check": check,
    "features": features,
    "hold": hold,
    "lock": lock,
    "lose": lose,
    "fork": fork,
}
MODES[MODE]()
