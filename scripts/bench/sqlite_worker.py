#!/usr/bin/env python3
"""A process with one connection, which does what sqlite.py asks for, a line of JSON at a time.

So the connections of a measurement are in processes of their own, and /proc/self/io has the bytes of one of them.
"""

import json
import random
import sqlite3
import sys
import time

import sqlite_tpcc


def percentile(sorted_values, part):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * part))]


def latencies(times):
    times = sorted(times)
    return {"p50_us": percentile(times, 0.5) / 1000, "p99_us": percentile(times, 0.99) / 1000}


def cpu_us():
    """Microseconds of processor time that the process has taken, in all of its threads."""
    return time.process_time() * 1e6


def written():
    """Bytes that the process has passed to write calls. The system's `write_bytes` counts a large folio of the page cache whole, of
    which one block is written."""
    with open("/proc/self/io") as file:
        found = dict(line.split(": ") for line in file.read().splitlines())
    return int(found["wchar"])


class Worker:
    def __init__(self, library):
        self.random = random.Random(7)
        self.connection = None
        if library:
            loader = sqlite3.connect(":memory:")
            loader.enable_load_extension(True)
            loader.load_extension(library)

    def execute(self, sql, values=()):
        return self.connection.execute(sql, values)

    def one(self, sql):
        return self.execute(sql).fetchone()[0]

    def open(self, uri, journal, synchronous):
        self.connection = sqlite3.connect(uri, uri=True, timeout=60, isolation_level=None)
        if journal:
            # What another process of the round has left may take a moment to be given up.
            found = self.one(f"PRAGMA journal_mode = {journal}")
            if found != journal:
                raise RuntimeError(f"the journal mode is {found}, not {journal}")
        self.execute(f"PRAGMA synchronous = {synchronous}")
        return {"sqlite": sqlite3.sqlite_version}

    def close(self):
        self.connection.close()
        self.connection = None
        return {"wchar": written()}

    def fill(self, rows):
        """The large table: about 230 bytes a row."""
        self.execute("CREATE TABLE big(id INTEGER PRIMARY KEY, n INTEGER NOT NULL, body TEXT NOT NULL)")
        self.execute(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?)"
            " INSERT INTO big SELECT i, 0, hex(randomblob(108)) FROM c", (rows,))
        return {"bytes": self.one("PRAGMA page_count") * self.one("PRAGMA page_size")}

    def copy_to(self, uri):
        """Copies the whole database."""
        began = time.perf_counter()
        self.execute(f"VACUUM INTO '{uri}'")
        return {"ms": (time.perf_counter() - began) * 1000}

    def commits(self, rows, commits):
        """Commits of so many rows each, into a table of their own."""
        self.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
        insert = "INSERT INTO t(a, b) VALUES (?, ?)"
        text = "x" * 100
        batch = [(number, text) for number in range(rows)]
        before = self.one("SELECT count(*) FROM t")
        times, cpu = [], cpu_us()
        began = time.perf_counter_ns()
        for _ in range(commits):
            start = time.perf_counter_ns()
            if rows == 1:
                self.execute(insert, batch[0])
            else:
                self.execute("BEGIN")
                self.connection.executemany(insert, batch)
                self.execute("COMMIT")
            times.append(time.perf_counter_ns() - start)
        seconds = (time.perf_counter_ns() - began) / 1e9
        cpu = (cpu_us() - cpu) / commits
        is_right = self.one("SELECT count(*) FROM t") == before + rows * commits
        return {"rows_s": rows * commits / seconds, "cpu_us": cpu, "right": is_right, **latencies(times)}

    def updates(self, rows, seconds=None, commits=None):
        """Updates of random rows of the large table, a commit each."""
        sum_before = self.one("SELECT sum(n) FROM big") if commits else None
        times, cpu, began = [], cpu_us(), time.perf_counter_ns()
        while (commits and len(times) < commits) or (seconds and time.perf_counter_ns() - began < seconds * 1e9):
            start = time.perf_counter_ns()
            self.execute("UPDATE big SET n = n + 1 WHERE id = ?", (self.random.randint(1, rows),))
            times.append(time.perf_counter_ns() - start)
        spent, cpu = (time.perf_counter_ns() - began) / 1e9, (cpu_us() - cpu) / len(times)
        is_right = not commits or self.one("SELECT sum(n) FROM big") == sum_before + commits
        return {"rows_s": len(times) / spent, "cpu_us": cpu, "right": is_right, **latencies(times)}

    def reads(self, rows, seconds):
        """Random rows of the large table, a transaction each."""
        times, is_right, cpu, began = [], True, cpu_us(), time.perf_counter_ns()
        while time.perf_counter_ns() - began < seconds * 1e9:
            start = time.perf_counter_ns()
            number = self.random.randint(1, rows)
            found = self.execute("SELECT id, length(body) FROM big WHERE id = ?", (number,)).fetchone()
            times.append(time.perf_counter_ns() - start)
            is_right = is_right and found == (number, 216)
        cpu = (cpu_us() - cpu) / len(times)
        return {"rows_s": len(times) / seconds, "cpu_us": cpu, "right": is_right, **latencies(times)}

    def scan(self, rows):
        """All rows of the large table, once."""
        began = time.perf_counter()
        found = self.execute("SELECT count(*), sum(length(body)) FROM big").fetchone()
        return {"rows_s": rows / (time.perf_counter() - began), "right": found == (rows, rows * 216)}

    def snapshot(self, name):
        began = time.perf_counter()
        self.execute(f"PRAGMA tembo_snapshot = {name}")
        spent = time.perf_counter() - began
        self.execute(f"PRAGMA tembo_drop_snapshot = {name}")
        return {"ms": spent * 1000}

    def tpcc_fill(self, scale):
        sqlite_tpcc.fill(self.connection, scale)
        return {}

    def tpcc(self, transactions, scale):
        began, cpu = time.perf_counter(), cpu_us()
        times = sqlite_tpcc.run(self.connection, self.random, transactions, scale)
        seconds, cpu = time.perf_counter() - began, (cpu_us() - cpu) / transactions
        is_right = sqlite_tpcc.is_consistent(self.connection)
        return {"tx_s": transactions / seconds, "cpu_us": cpu, "right": is_right, **latencies(times)}


def main():
    worker = Worker(sys.argv[1] if len(sys.argv) > 1 else None)
    for line in sys.stdin:
        call, arguments = json.loads(line)
        try:
            answer = getattr(worker, call)(**arguments)
        except sqlite3.Error as error:
            answer = {"error": f"{call} {arguments}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
