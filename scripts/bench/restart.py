#!/usr/bin/env python3
"""How long a restart takes after a SIGKILL in mid-write.

For each number of keys: fill the store, then several times: write as fast as possible so that the
log is at its largest, SIGKILL, drop the page cache or not, start, and measure from exec to the first
reply to a GET, then 100 random GETs and one SET, the time until background recovery has ended, and
the memory of the process. What is shown is the worst of all.

An NV-Tree is opened by the hint that it wrote in the background. `--hints with,without` also opens it
without: the killed store is opened and stopped, so that nothing is left in its log, and the hints are
withdrawn in its file.

    scripts/bench/restart.py                         100,000, 1,000,000 and 3,000,000 keys
    scripts/bench/restart.py --keys 100000 --rounds 2
    scripts/bench/restart.py --index nvtree --hints with,without
"""

import argparse
import json
import mmap
import os
import random
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from servers import Client, Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 1000
SETTINGS = {
    "logged": ["--domain", "logged", "--sync", "always"],
    "flush": ["--domain", "flush"],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tembo", default=os.path.join(ROOT, "target/release/tembo"))
    parser.add_argument("--keys", default="100000,1000000,3000000")
    parser.add_argument("--value-size", type=int, default=100)
    parser.add_argument("--domains", default="logged,flush")
    parser.add_argument("--index", help="of the store; by default what the server takes")
    parser.add_argument("--hints", default="with")
    parser.add_argument("--rounds", type=int, default=5, help="kills for each state of the cache")
    parser.add_argument("--writing-s", type=float, default=3.0, help="seconds of writing before a kill")
    parser.add_argument("--log-size", default="64M")
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"))
    parser.add_argument("--memory", default="/dev/shm")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    return parser.parse_args()


def key(number):
    return b"key:%012d" % number


def fill(client, count, size):
    value = b"x" * size
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        client.send(*(("SET", key(number), value) for number in numbers))
        for _ in numbers:
            client.read()


def write_until_killed(port, count, size):
    """Overwrites random keys, in a pipeline, until the connection breaks."""
    value = os.urandom(size)
    try:
        client = Client(port)
        while True:
            client.send(*(("SET", key(random.randrange(count)), value) for _ in range(BATCH)))
            for _ in range(BATCH):
                client.read()
    except (ConnectionError, OSError):
        pass


def drop_cache(server):
    """Takes the store's files out of the page cache; False if they are nowhere else."""
    os.sync()
    for name in os.listdir(server.folder):
        file = os.open(os.path.join(server.folder, name), os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
    except OSError:
        pass  # Only the superuser may; the advice has done most of it.


def withdraw_hints(server):
    """Makes the cells of all NV-Trees name no hint (docs/formats/nvtree.md)."""
    with open(server.pool, "r+b") as file, mmap.mmap(file.fileno(), 0) as pool:
        at = pool.find(b"NVT-CELL")
        while at >= 0:
            if at % 64 == 8:
                pool[at + 8 : at + 16] = bytes(8)
            at = pool.find(b"NVT-CELL", at + 1)


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def timed_ms(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def restart(server, count):
    """Starts the killed server and measures."""
    start = time.perf_counter()
    client = server.start()
    result = {"ready_ms": (time.perf_counter() - start) * 1e3}
    if client.call("GET", key(random.randrange(count))) is None:
        sys.exit("a key is lost")
    result["first_get_ms"] = (time.perf_counter() - start) * 1e3
    gets = [timed_ms(lambda: client.call("GET", key(random.randrange(count)))) for _ in range(100)]
    result["get_max_ms"] = max(gets)
    result["get_median_ms"] = statistics.median(gets)
    result["set_ms"] = timed_ms(lambda: client.call("SET", key(random.randrange(count)), b"new"))
    info = client.info()
    result["recovery_ms"] = int(info.get("tembo_last_recovery_us", 0)) / 1e3
    while info.get("tembo_recovering", "0") != "0":
        time.sleep(0.005)
        info = client.info()
    result["recovered_ms"] = (time.perf_counter() - start) * 1e3
    result["resident_mib"] = resident_kib(server.process.pid) / 1024
    client.close()
    return result


def measure(domain, count, args):
    place = args.memory if domain == "flush" else args.disk
    options = [*SETTINGS[domain], "--log-size", args.log_size]
    options += ["--index", args.index] if args.index else []
    caches = ("warm", "dropped") if domain == "logged" else ("warm",)
    rows = []
    with Server("tembo", args.tembo, place, options) as server:
        client = server.start()
        fill(client, count, args.value_size)
        client.close()
        for hint, cache in [(hint, cache) for hint in args.hints.split(",") for cache in caches]:
            results = []
            for _ in range(args.rounds):
                words = (server.port, count, args.value_size)
                writer = threading.Thread(target=write_until_killed, args=words)
                writer.start()
                time.sleep(args.writing_s * random.uniform(0.5, 1.0))
                server.kill()
                writer.join()
                if hint == "without":
                    server.start().close()
                    server.stop()
                    withdraw_hints(server)
                if cache == "dropped":
                    drop_cache(server)
                results.append(restart(server, count))
            worst = {name: max(result[name] for result in results) for name in results[0]}
            name = {"domain": domain, "keys": count, "hint": hint, "cache": cache}
            rows.append({**name, "worst": worst, "all": results})
            print(f"{domain}, {count} keys, {hint} hint, {cache}: first GET {worst['first_get_ms']:.1f} ms", flush=True)
    return rows


def report(rows, args):
    lines = [
        f"The worst of {args.rounds} restarts after SIGKILL in mid-write; values of {args.value_size} "
        f"bytes, log of {args.log_size}; {time.strftime('%Y-%m-%d')}",
        "",
        "| domain | keys | hint | page cache | exec to first GET, ms | worst of 100 GETs, ms | SET, ms | recovery, ms | all recovered, ms | RSS, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        worst = row["worst"]
        lines.append(
            f"| {row['domain']} | {row['keys']:,} | {row['hint']} | {row['cache']} | {worst['first_get_ms']:.1f} | "
            f"{worst['get_max_ms']:.2f} | {worst['set_ms']:.2f} | {worst['recovery_ms']:.2f} | "
            f"{worst['recovered_ms']:.0f} | {worst['resident_mib']:.0f} |"
        )
    lines.append("")
    place = lambda row: (row["domain"], row["hint"], row["cache"])
    for domain, hint, cache in dict.fromkeys(map(place, rows)):
        first = [row["worst"]["first_get_ms"] for row in rows if place(row) == (domain, hint, cache)]
        lines.append(f"- {domain}, {hint} hint, {cache}: slowest first GET is {max(first) / min(first):.2f} × the fastest")
    text = "\n".join(lines) + "\n"
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "restart.md"), "w") as file:
        file.write(text)
    with open(os.path.join(args.out, "restart.json"), "w") as file:
        json.dump(rows, file, indent=1)
    print(f"\n{text}\nwritten to {args.out}/restart.md and restart.json")


def main():
    args = arguments()
    rows = []
    for domain in args.domains.split(","):
        for count in args.keys.split(","):
            rows += measure(domain, int(count), args)
    report(rows, args)


if __name__ == "__main__":
    main()
