#!/usr/bin/env python3
"""Every kind of command, Tembo and Redis side by side, by redis-benchmark; and the bytes that small elements cost.

Rounds are interleaved: in each, both servers start empty and run the loads in turns, one beginning in even rounds, the
other in odd ones. A ratio is made of one round, and of all rounds the median, the least and the greatest are shown.
Two ratios are there: requests a second (more than 1: Tembo is faster), and processor time of the server for a request
(less than 1: Tembo takes less), which depends less on what else the machine does.

In memory (/dev/shm): tembo in the `flush` domain against Redis without persistence. On disk: tembo `logged always` against
Redis with `appendfsync always`.

    scripts/bench/commands.py                      everything
    scripts/bench/commands.py --quick              a look
    scripts/bench/commands.py --places memory --pipelines 16 --tests lpush,hset
    scripts/bench/commands.py --bytes              only the bytes an element costs
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
# The default set of redis-benchmark, by the names of its option -t.
BUILT_IN = (
    "ping_mbulk set get incr lpush rpush lpop rpop sadd hset spop zadd zpopmin "
    "lrange_100 lrange_300 lrange_500 lrange_600 mset"
).split()
SCRIPT = "redis.call('INCRBY', KEYS[1], ARGV[1]) return redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])"
OWN = {
    "eval": ["EVAL", SCRIPT, "2", "count:__rand_int__", "hash:__rand_int__", "7", "value"],
    "xadd": ["XADD", "stream", "*", "field", "value"],
    "xrange_100": ["XRANGE", "stream", "-", "+", "COUNT", "100"],
    "xreadgroup": ["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">"],
    "zadd_many": ["ZADD", "sorted", "__rand_int__", "member:__rand_int__"],
    "zrank": ["ZRANK", "sorted", "member:__rand_int__"],
    "hget": ["HGET", "myhash", "element:__rand_int__"],
    "sismember": ["SISMEMBER", "myset", "element:__rand_int__"],
}
TESTS = [*BUILT_IN, *OWN]


def rivals(place):
    if place == "memory":
        return [("tembo", ["--domain", "flush"]), ("redis", ["--appendonly", "no"])]
    return [
        ("tembo", ["--domain", "logged", "--sync", "always"]),
        ("redis", ["--appendonly", "yes", "--appendfsync", "always"]),
    ]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tembo", default=os.path.join(ROOT, "target/release/tembo"))
    bundled = os.path.join(ROOT, "target/bin/redis-server")
    found = bundled if os.path.exists(bundled) else shutil.which("redis-server")
    parser.add_argument("--redis", default=found)
    parser.add_argument("--places", default="memory,disk")
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"), help="a folder on a disk")
    parser.add_argument("--memory", default="/dev/shm")
    parser.add_argument("--pipelines", default="1,16")
    parser.add_argument("--tests", default=",".join(TESTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000, help="of a test, with a pipeline of 16; a fourth without")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 40,000 requests")
    parser.add_argument("--bytes", action="store_true", help="only what elements cost")
    parser.add_argument("--count", type=int, default=100_000, help="elements of a kind whose bytes are measured")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.requests = 3, 40_000
    if not args.redis or not shutil.which("redis-benchmark"):
        sys.exit("there is no redis-server or redis-benchmark: run scripts/setup.sh")
    if not os.path.exists(args.tembo):
        sys.exit(f"there is no {args.tembo}: cargo build --release -p tembo-cli")
    unknown = set(args.tests.split(",")) - set(TESTS)
    if unknown:
        sys.exit(f"unknown tests: {', '.join(sorted(unknown))}; known are {', '.join(TESTS)}")
    return args


def serve(name, options, place, args):
    folder = args.memory if place == "memory" else args.disk
    return Server(name, args.tembo if name == "tembo" else args.redis, folder, options)


def cpu_s(server):
    """Processor time that the server's process has had."""
    with open(f"/proc/{server.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare(client, test):
    """What a test needs that the ones before it have not left."""
    if test.startswith("lrange"):
        # What lrange reads: redis-benchmark makes it too, by a load of its own.
        client.call("DEL", "mylist")
    elif test == "xreadgroup":
        try:
            client.call("XGROUP", "CREATE", "stream", "group", "0", "MKSTREAM")
        except RuntimeError:
            pass  # It is there from the other pipeline.


def load(server, client, test, pipeline, args):
    """Requests a second, and microseconds of processor time a request."""
    requests = args.requests if pipeline > 1 else args.requests // 4
    prepare(client, test)
    command = ["redis-benchmark", "-p", server.port, "-n", requests, "-r", args.keys, "-c", args.clients]
    command += ["-P", pipeline, "--csv"]
    command += OWN[test] if test in OWN else ["-t", test]
    before = cpu_s(server)
    output = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    used = cpu_s(server) - before
    rows = [line.split('","') for line in output.stdout.splitlines() if line.startswith('"')]
    rows = [row for row in rows if not row[0].startswith('"test')]
    # LRANGE is preceded by the load that makes its list.
    if not rows or "rror" in output.stderr:
        sys.exit(f"redis-benchmark failed at {test}:\n{output.stdout}{output.stderr}")
    return {"ops": float(rows[-1][1].strip('"')), "cpu_us": used / (requests * len(rows)) * 1e6}


def measure(args):
    figures = {}
    for number in range(args.rounds):
        for place in args.places.split(","):
            for pipeline in map(int, args.pipelines.split(",")):
                both = [(name, serve(name, options, place, args)) for name, options in rivals(place)]
                with both[0][1], both[1][1]:
                    open_ = [(name, server, server.start()) for name, server in both]
                    for test in args.tests.split(","):
                        for name, server, client in open_ if number % 2 == 0 else open_[::-1]:
                            found = load(server, client, test, pipeline, args)
                            figures.setdefault((place, pipeline, test), {}).setdefault(name, []).append(found)
                        last = figures[(place, pipeline, test)]
                        ratio = last["tembo"][-1]["ops"] / last["redis"][-1]["ops"]
                        print(f"round {number + 1}: {place} P={pipeline} {test}: {ratio:.2f}", flush=True)
    return figures


def spread(ratios):
    return {"median": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios)}


def rows_of(figures):
    rows = []
    for (place, pipeline, test), by_name in figures.items():
        pairs = list(zip(by_name["tembo"], by_name["redis"]))
        row = {"place": place, "pipeline": pipeline, "test": test}
        row["ops"] = spread([mine["ops"] / theirs["ops"] for mine, theirs in pairs])
        # A load may be shorter than what the clock of processor time can resolve.
        known = [(mine, theirs) for mine, theirs in pairs if theirs["cpu_us"] > 0]
        if known:
            row["cpu"] = spread([mine["cpu_us"] / theirs["cpu_us"] for mine, theirs in known])
        row["cpu_us"] = {name: statistics.median(one["cpu_us"] for one in by_name[name]) for name in by_name}
        rows.append(row)
    return rows


# Kinds of elements: the commands that make the nth collection, and how many elements one has.
def shapes():
    def fields(nth):
        yield ["HSET", f"hash:{nth}", *[word for field in range(10) for word in (f"field{field}", f"value{nth % 100:05}")]]

    def elements(nth):
        yield ["RPUSH", f"list:{nth}", *[f"element:{number:05}" for number in range(100)]]

    def members(nth):
        yield ["SADD", f"set:{nth}", *[f"member:{number:07}" for number in range(1000)]]

    def scored(nth):
        yield ["ZADD", f"sorted:{nth}", *[word for number in range(1000) for word in (number, f"member:{number:07}")]]

    def small(nth):
        yield ["SET", f"key:{nth:08}", "value:xxxxx"]

    return {
        "hash of 10 fields": (fields, 10),
        "list of 100": (elements, 100),
        "set of 1000": (members, 1000),
        "sorted set of 1000": (scored, 1000),
        "small key": (small, 1),
    }


def memory_of(server, client, name):
    """Bytes of the data, and of the process."""
    info = client.info()
    data = int(info["tembo_used_bytes"] if name == "tembo" else info["used_memory"])
    with open(f"/proc/{server.process.pid}/status") as file:
        rss = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
    return data, rss


def bytes_of(args):
    rows = []
    for shape, (make, width) in shapes().items():
        row = {"shape": shape}
        collections = max(args.count // width, 10)
        for name, options in rivals("memory"):
            with serve(name, options, "memory", args) as server:
                client = server.start()
                before = memory_of(server, client, name)
                for start in range(0, collections, 100):
                    commands = [words for nth in range(start, min(start + 100, collections)) for words in make(nth)]
                    client.send(*commands)
                    for _ in commands:
                        client.read()
                after = memory_of(server, client, name)
                row[name] = {
                    "data": (after[0] - before[0]) / (collections * width),
                    "rss": (after[1] - before[1]) / (collections * width),
                }
                client.close()
        rows.append(row)
    return rows


def report(rows, sizes, args):
    lines = [f"{platform.machine()}, {os.cpu_count()} cores; {time.strftime('%Y-%m-%d')}"]
    if rows:
        lines += [
            "",
            f"redis-benchmark -r {args.keys} -n {args.requests} (P=1: a fourth) -c {args.clients}, {args.rounds} interleaved "
            "rounds; tembo to redis: median (least–greatest)",
            "",
            "| place | P | test | requests a second | processor time a request | tembo µs | redis µs |",
            "|---|---|---|---|---|---|---|",
        ]
        text = lambda one: f"{one['median']:.2f} ({one['least']:.2f}–{one['greatest']:.2f})"
        for row in rows:
            cpu = text(row["cpu"]) if "cpu" in row else ""
            lines.append(
                f"| {row['place']} | {row['pipeline']} | {row['test']} | {text(row['ops'])} | {cpu} | "
                f"{row['cpu_us']['tembo']:.2f} | {row['cpu_us']['redis']:.2f} |"
            )
    if sizes:
        lines += [
            "",
            "Bytes an element, name included: of the data (pool, used_memory), and of the process in memory",
            "",
            "| | tembo, pool | redis, used_memory | ratio | tembo, process | redis, process |",
            "|---|---|---|---|---|---|",
        ]
        for row in sizes:
            mine, theirs = row["tembo"], row["redis"]
            lines.append(
                f"| {row['shape']} | {mine['data']:.1f} | {theirs['data']:.1f} | {mine['data'] / theirs['data']:.2f} | "
                f"{mine['rss']:.1f} | {theirs['rss']:.1f} |"
            )
    text = "\n".join(lines) + "\n"
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "commands.md"), "w") as file:
        file.write(text)
    arguments = {name: getattr(args, name) for name in ("requests", "keys", "clients", "rounds", "count")}
    with open(os.path.join(args.out, "commands.json"), "w") as file:
        json.dump({"arguments": arguments, "rows": rows, "bytes": sizes}, file, indent=1)
    print(f"\n{text}\nwritten to {args.out}/commands.md and commands.json")


def main():
    args = arguments()
    rows = [] if args.bytes else rows_of(measure(args))
    report(rows, bytes_of(args), args)


if __name__ == "__main__":
    main()
