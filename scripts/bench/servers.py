"""The servers that the benchmarks start, and the few lines of Redis's protocol that they need."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60

# So that `with` ends the servers when a signal ends the benchmark.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


class Client:
    """A connection that sends commands and reads replies."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE_S)
        self.reader = self.socket.makefile("rb", buffering=1 << 16)

    def send(self, *commands):
        self.socket.sendall(b"".join(encode(command) for command in commands))

    def read(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has gone")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        raise RuntimeError(f"reply {line!r}")

    def call(self, *words):
        self.send(words)
        return self.read()

    def info(self):
        lines = self.call("INFO").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self):
        self.reader.close()
        self.socket.close()


def encode(words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server's process with its own folder; both are gone after `with`."""

    def __init__(self, kind, binary, place, options=()):
        self.kind, self.binary, self.options = kind, binary, list(options)
        self.folder = tempfile.mkdtemp(prefix=f"tembo-bench-{kind}-", dir=place)
        self.pool = os.path.join(self.folder, "bench.pool")
        self.process = None
        self.port = None

    def command(self):
        if self.kind == "tembo":
            return [self.binary, "serve", "--pool", self.pool, "--port", str(self.port), *self.options]
        fixed = ["--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--daemonize", "no"]
        return [self.binary, "--port", str(self.port), *fixed, *self.options]

    def start(self, before=()):
        """Starts the process, behind the words `before`, and waits for its first reply."""
        self.port = free_port()
        with open(os.path.join(self.folder, "output"), "ab") as output:
            self.process = subprocess.Popen(
                [*before, *self.command()], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                client = Client(self.port)
                if client.call("PING") == "PONG":
                    return client
            except (ConnectionError, RuntimeError):
                pass  # Not listening yet, or loading.
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{self.command()} did not start:\n{self.output()}")
            time.sleep(0.0002)

    def output(self):
        with open(os.path.join(self.folder, "output"), errors="replace") as output:
            return output.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
