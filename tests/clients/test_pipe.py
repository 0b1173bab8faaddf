#!/usr/bin/env python3
"""A million keys through `redis-cli --pipe`, a SIGKILL, and they are all there."""

import atexit
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

KEYS = 1_000_000
TEMBO = os.environ.get("TEMBO", "target/release/tembo")


def start(pool):
    words = [TEMBO, "serve", "--pool", pool, "--port", "0", "--domain", "logged"]
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    # Whatever happens; killing what has ended does nothing.
    atexit.register(server.kill)
    ready = server.stdout.readline()
    match = re.search(r"127\.0\.0\.1:(\d+)", ready)
    if not match:
        sys.exit(f"the server is not ready: {ready!r}, {server.wait()}")
    return server, match[1]


def redis_cli(port, *words, **more):
    output = subprocess.run(["redis-cli", "-p", port, *words], capture_output=True, text=True, **more)
    return output.stdout.strip()


def value(number):
    return f"value:{number}" * (1 + number % 3)


def commands():
    for number in range(KEYS):
        key = f"key:{number}"
        yield f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(value(number))}\r\n{value(number)}\r\n"


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")


def expect_soon(what, find, wanted):
    """Counts are taken beside the clients after a start: until then they are not exact."""
    patience = time.monotonic() + 60
    while find() != wanted and time.monotonic() < patience:
        time.sleep(0.1)
    expect(what, find(), wanted)


def main():
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(TEMBO))) as folder:
        pool = os.path.join(folder, "pipe.pool")
        server, port = start(pool)
        began = time.monotonic()
        said = redis_cli(port, "--pipe", input="".join(commands()))
        print(f"loaded in {time.monotonic() - began:.1f} s")
        expect("--pipe", said.splitlines()[-1:], [f"errors: 0, replies: {KEYS}"])
        expect("DBSIZE", redis_cli(port, "DBSIZE"), str(KEYS))
        server.send_signal(signal.SIGKILL)
        server.wait()

        began = time.monotonic()
        server, port = start(pool)
        print(f"ready {(time.monotonic() - began) * 1e3:.0f} ms after exec")
        for number in (0, KEYS - 1, *random.sample(range(KEYS), 200)):
            expect(f"key:{number}", redis_cli(port, "GET", f"key:{number}"), value(number))
        expect_soon("DBSIZE", lambda: redis_cli(port, "DBSIZE"), str(KEYS))
        server.terminate()
        expect("the clean stop", server.wait(60), 0)
        check = subprocess.run([TEMBO, "check", pool], capture_output=True, text=True)
        expect("check", check.returncode, 0)
    print("ok")


if __name__ == "__main__":
    main()
