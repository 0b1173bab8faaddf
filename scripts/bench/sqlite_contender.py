"""What is measured: Tembo's VFS and ordinary files, and the processes that have them open."""

import contextlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# What SQLite, Tembo or a command may put beside a database.
ENDS = ("", ".log", ".sock", "-journal", "-wal", "-shm")

# Of two processes with one of Tembo's pools, which has opened it, and so serves the other.
OWNER = {"reader": "the reader owns", "writer": "the writer owns"}


class Unable(Exception):
    """What a contender has answered in the place of a figure."""


class Contender:
    """How a database is kept, and what its program asks for: Tembo has no journal, but NORMAL is as with a WAL if that is asked for."""

    def __init__(self, name, journal, synchronous):
        self.name, self.journal, self.synchronous = name, journal, synchronous
        self.is_tembo = name.startswith("tembo")
        self.large = "large.pool" if self.is_tembo else "large.file"

    def domain(self, folder):
        """`flush` is not chosen by itself: /dev/shm stands for persistent memory here."""
        return "flush" if folder.startswith("/dev/shm") else "logged"

    def uri(self, path, domain):
        return f"file:{path}?vfs=tembo&domain={domain}" if self.is_tembo else f"file:{path}"

    def remove(self, path):
        for end in ENDS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + end)


CONTENDERS = [
    Contender("tembo FULL", None, "FULL"),
    Contender("tembo NORMAL", "wal", "NORMAL"),
    Contender("tembo OFF", None, "OFF"),
    Contender("wal FULL", "wal", "FULL"),
    Contender("wal NORMAL", "wal", "NORMAL"),
    Contender("journal FULL", "delete", "FULL"),
    Contender("journal NORMAL", "delete", "NORMAL"),
]


class Process:
    """A worker with the database open."""

    def __init__(self, contender, extension, path, folder, before=()):
        command = [*before, "/usr/bin/python3", os.path.join(HERE, "sqlite_worker.py"), extension]
        if not os.path.exists("/usr/bin/python3"):
            sys.exit("there is no /usr/bin/python3, whose SQLite is measured")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        uri = contender.uri(path, contender.domain(folder))
        self.opened = self.call("open", uri=uri, journal=contender.journal, synchronous=contender.synchronous)

    def send(self, call, **arguments):
        self.process.stdin.write(json.dumps([call, arguments]) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Unable(answer["error"])
        return answer

    def call(self, call, **arguments):
        self.send(call, **arguments)
        return self.receive()

    def close(self):
        """Closes the database; what the process has written."""
        answer = self.call("close")
        self.end()
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait(120)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        else:
            self.call("close")
        self.end()
