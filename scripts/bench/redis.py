#!/usr/bin/env python3
"""Tembo and Redis side by side, by redis-benchmark.

Rounds are interleaved: in each, every server runs every load once, from an empty store, and the
medians over the rounds are compared. Read the ratios: absolute figures are the machine's.

In memory (/dev/shm): tembo in the `flush` domain against Redis with appendonly no, everysec, always.
On disk: tembo `logged always` against Redis with `appendfsync always`, and, in runs of their own so
that counting costs nothing, the fdatasyncs of both.

    scripts/bench/redis.py                      everything, half an hour
    scripts/bench/redis.py --quick              a look, a few minutes
    scripts/bench/redis.py --places disk --sizes 3 --pipelines 1
    scripts/bench/redis.py --old OTHER/tembo --warm 300000
                                                two programs of Tembo, and no Redis: what a change costs
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from servers import Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = ("SET", "GET")
APPEND = ["--appendonly", "yes", "--appendfsync"]


def rivals(place, args):
    """Name, program, options; the first is the one that the others are compared with."""
    tembo = {"memory": ["--domain", "flush"], "disk": ["--domain", "logged", "--sync", "always"]}[place]
    if args.old:
        return [("tembo", "tembo", tembo), ("old", "old", tembo)]
    if place == "memory":
        return [
            ("tembo flush", "tembo", tembo),
            ("redis no", "redis", ["--appendonly", "no"]),
            ("redis everysec", "redis", [*APPEND, "everysec"]),
            ("redis always", "redis", [*APPEND, "always"]),
        ]
    return [
        ("tembo logged always", "tembo", tembo),
        ("redis always", "redis", [*APPEND, "always"]),
    ]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tembo", default=os.path.join(ROOT, "target/release/tembo"))
    bundled = os.path.join(ROOT, "target/bin/redis-server")
    found = bundled if os.path.exists(bundled) else shutil.which("redis-server")
    parser.add_argument("--redis", default=found)
    parser.add_argument("--old", help="another program of Tembo, to stand in Redis's place")
    parser.add_argument("--warm", type=int, default=0, help="SETs, 16 in a pipeline, before each load: a log that has grown")
    parser.add_argument("--places", default="memory,disk")
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"), help="a folder on a disk")
    parser.add_argument("--memory", default="/dev/shm")
    parser.add_argument("--sizes", default="3,1024")
    parser.add_argument("--pipelines", default="1,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 100,000 requests")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.requests, args.keys = 3, 100_000, 100_000
    if not args.redis or not shutil.which("redis-benchmark"):
        sys.exit("there is no redis-server or redis-benchmark: run scripts/setup.sh")
    if not os.path.exists(args.tembo):
        sys.exit(f"there is no {args.tembo}: cargo build --release")
    return args


def serve(rival, place, args):
    _, program, options = rival
    folder = args.memory if place == "memory" else args.disk
    path = {"tembo": args.tembo, "old": args.old, "redis": args.redis}[program]
    return Server("redis" if program == "redis" else "tembo", path, folder, options)


def warm(port, size, args):
    if args.warm:
        command = ["redis-benchmark", "-p", port, "-n", args.warm, "-r", args.keys, "-c", args.clients, "-d", size, "-P", 16, "-t", "set", "-q"]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def load(port, size, pipeline, requests, args):
    """Runs redis-benchmark; operations per second and median latency by test."""
    command = ["redis-benchmark", "-p", port, "-n", requests, "-r", args.keys, "-c", args.clients]
    command += ["-d", size, "-P", pipeline, "-t", ",".join(TESTS).lower(), "--csv"]
    output = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    found = {}
    for line in output.stdout.splitlines():
        cells = [cell.strip('"') for cell in line.split('","')]
        if cells[0] in TESTS:
            found[cells[0]] = {"ops": float(cells[1]), "p99_ms": float(cells[6])}
    if set(found) != set(TESTS):
        sys.exit(f"redis-benchmark failed:\n{output.stdout}{output.stderr}")
    return found


def measure(args):
    figures = {}
    places = args.places.split(",")
    loads = [
        (place, int(size), int(pipeline))
        for place in places
        for size in args.sizes.split(",")
        for pipeline in args.pipelines.split(",")
    ]
    for number in range(args.rounds):
        for place, size, pipeline in loads:
            order = rivals(place, args)
            for rival in order if number % 2 == 0 else reversed(order):
                with serve(rival, place, args) as server:
                    server.start().close()
                    warm(server.port, size, args)
                    found = load(server.port, size, pipeline, args.requests, args)
                for test, result in found.items():
                    key = (place, size, pipeline, test, rival[0])
                    figures.setdefault(key, []).append(result)
                text = ", ".join(f"{test} {found[test]['ops']:,.0f}" for test in TESTS)
                print(f"round {number + 1}: {place} d={size} P={pipeline} {rival[0]}: {text}", flush=True)
    return figures


def count_syncs(args, size, pipeline):
    """fdatasyncs of the SET and GET load for each rival on disk: as strace counts, or as it says."""
    requests = min(args.requests, 100_000)
    counts = {}
    for rival in rivals("disk", args):
        with serve(rival, "disk", args) as server:
            trace = os.path.join(server.folder, "strace")
            strace = shutil.which("strace")
            before = [strace, "--seccomp-bpf", "-f", "-c", "-e", "trace=fdatasync,fsync", "-o", trace] if strace else []
            client = server.start(before)
            load(server.port, size, pipeline, requests, args)
            said = client.info().get("tembo_fdatasyncs")
            client.close()
            if strace:
                # strace passes no signal on: end its child, and it ends too.
                children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
                with open(children) as file:
                    for child in file.read().split():
                        os.kill(int(child), 15)
                server.process.wait(60)
                with open(trace) as file:
                    rows = [line.split() for line in file]
                # Share, seconds, microseconds a call, calls, perhaps errors, name.
                calls = [row[3] for row in rows if row[-1:] in (["fsync"], ["fdatasync"])]
                counts[rival[0]] = {"strace": sum(map(int, calls)), "info": said}
            else:
                counts[rival[0]] = {"strace": None, "info": said}
    return {"requests": 2 * requests, "size": size, "pipeline": pipeline, "counts": counts}


def report(figures, syncs, args):
    before = f"after {args.warm} SETs; " if args.warm else ""
    lines = [
        f"redis-benchmark -r {args.keys} -n {args.requests} -c {args.clients}; {before}"
        f"medians of {args.rounds} interleaved rounds; {platform.machine()}, {os.cpu_count()} cores; "
        f"{time.strftime('%Y-%m-%d')}",
        "",
        "| place | test | d | P | server | ops/s | least–most | p99 ms | tembo to it, a round: median (least–most) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for (place, size, pipeline, test, name), results in figures.items():
        ops = [result["ops"] for result in results]
        own = figures[(place, size, pipeline, test, rivals(place, args)[0][0])]
        ratios = [mine["ops"] / theirs for mine, theirs in zip(own, ops)]
        row = {
            "place": place, "test": test, "size": size, "pipeline": pipeline, "server": name,
            "ops": statistics.median(ops), "ops_min": min(ops), "ops_max": max(ops),
            "p99_ms": statistics.median(result["p99_ms"] for result in results),
            "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
        }
        rows.append(row)
    rows.sort(key=lambda row: (row["place"], row["test"], row["size"], row["pipeline"]))
    for row in rows:
        ratio = f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})"
        ratio = "" if row["server"].startswith("tembo") else ratio
        lines.append(
            f"| {row['place']} | {row['test']} | {row['size']} | {row['pipeline']} | {row['server']} | "
            f"{row['ops']:,.0f} | {row['ops_min']:,.0f}–{row['ops_max']:,.0f} | {row['p99_ms']:.2f} | {ratio} |"
        )
    for entry in syncs:
        lines += ["", f"fsync and fdatasync calls for {entry['requests']} requests, half SET, half GET "
                  f"(d={entry['size']}, P={entry['pipeline']}), start and stop included:", ""]
        lines += [f"- {name}: {count['strace']} (strace)" + (f", {count['info']} (INFO)" if count["info"] else "")
                  for name, count in entry["counts"].items()]
    text = "\n".join(lines) + "\n"
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "redis.md"), "w") as file:
        file.write(text)
    with open(os.path.join(args.out, "redis.json"), "w") as file:
        json.dump({"arguments": {"requests": args.requests, "keys": args.keys, "clients": args.clients,
                                 "rounds": args.rounds}, "rows": rows, "syncs": syncs}, file, indent=1)
    print(f"\n{text}\nwritten to {args.out}/redis.md and redis.json")


def main():
    args = arguments()
    figures = measure(args)
    syncs = []
    if "disk" in args.places.split(",") and not args.old:
        for pipeline in args.pipelines.split(","):
            syncs.append(count_syncs(args, int(args.sizes.split(",")[0]), int(pipeline)))
    report(figures, syncs, args)


if __name__ == "__main__":
    main()
