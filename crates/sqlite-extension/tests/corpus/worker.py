"""A process with connections of its own, which does what lines of JSON ask for: one side of the comparison, or half of one."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time

# Steps of SQLite's virtual machine between two looks, and looks until a statement is interrupted.
STEPS, LOOKS = 1000, 200
# Bytes of a row in an answer; of a longer one there is the hash.
SHOWN = 300


def shown(row):
    text = repr(row)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… {len(text)} {hashlib.sha256(text.encode()).hexdigest()}"


def failure(error):
    return [type(error).__name__, str(error), getattr(error, "sqlite_errorcode", None)]


class Connections:
    def __init__(self):
        self.open_ones, self.looks = {}, 0

    def open(self, number, uri, patience):
        end = time.monotonic() + patience
        while True:
            try:
                made = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
                break
            except sqlite3.OperationalError as error:
                # The owner of the pool has not begun to serve.
                if time.monotonic() > end:
                    return {"error": failure(error)}
        made.text_factory = bytes
        made.set_progress_handler(self.is_too_long, STEPS)
        self.open_ones[number] = made
        return {"error": None}

    def is_too_long(self):
        self.looks += 1
        return int(self.looks > LOOKS)

    def close(self, number):
        self.open_ones.pop(number).close()
        return {"error": None}

    def sql(self, number, sql, is_limited):
        connection = self.open_ones[number]
        answer = {"error": None, "rows": []}
        self.looks = 0 if is_limited else -(1 << 60)
        try:
            cursor = connection.execute(sql)
            answer["rows"] = [shown(row) for row in cursor.fetchall()]
            answer["count"] = cursor.rowcount
        except Exception as error:  # Also what is no text that Python can take.
            answer["error"] = failure(error)
        answer["changes"] = connection.total_changes
        answer["is_open"] = connection.in_transaction
        return answer

    def settle(self, number):
        """Waits until a process that was killed has no locks."""
        end = time.monotonic() + 20
        while True:
            answer = self.sql(number, "begin immediate", False)
            if answer["error"] is None:
                return self.sql(number, "rollback", False)
            if time.monotonic() > end:
                return answer
            time.sleep(0.005)

    def content(self, number, schemas):
        """All that is in the databases: of each table how many rows, and their hash."""
        self.looks = -(1 << 60)
        connection, found = self.open_ones[number], {}
        for schema in schemas:
            rows = connection.execute(f"select type, name, tbl_name, rootpage, sql from {schema}.sqlite_schema").fetchall()
            # In one order: `reverse_unordered_selects` is of a connection.
            found[schema] = sorted(shown(row) for row in rows)
            for type, name, _, root, _ in rows:
                if type == b"table" and root:
                    found[f"{schema}.{name.decode()}"] = self.rows(connection, f'{schema}."{name.decode()}"')
        return {"error": None, "content": found}

    def rows(self, connection, table):
        try:
            rows = connection.execute(f"select rowid, * from {table}").fetchall()
        except sqlite3.OperationalError:
            rows = connection.execute(f"select * from {table}").fetchall()
        return [len(rows), hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()]


def work(extension):
    if extension:
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(extension)
    connections = Connections()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(connections, name)(*arguments)), flush=True)


class Worker:
    """The process, as the one that asks it has it."""

    def __init__(self, extension):
        command = [sys.executable, "-B", os.path.abspath(__file__), extension or ""]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker has ended: {self.process.wait()}")
        return json.loads(line)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    work(sys.argv[1])
