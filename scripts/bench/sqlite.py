#!/usr/bin/env python3
"""SQLite over Tembo and over ordinary files, side by side, in Debian's unmodified Python and SQLite.

Rounds are interleaved: in each, every contender does every load once, in another order, and ratios are taken within a round. Read the
ratios: absolute figures are the machine's. On disk Tembo's pool is `logged`, in memory (/dev/shm) `flush`. Python's own part of a
statement, some microseconds, is the same for all.

    cargo build --release -p tembo-sqlite-extension -p tembo-cli
    scripts/bench/sqlite.py                      everything, with a large database of 1 GB: about an hour
    scripts/bench/sqlite.py --quick              a look, a few minutes
    scripts/bench/sqlite.py --places disk --parts commits,bytes
    scripts/bench/sqlite.py --speedtest1 DIR     with speedtest1 of a checkout of SQLite (its test/speedtest1.c)
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sqlite_report
from sqlite_contender import CONTENDERS, OWNER, Process, Unable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = ("commits", "tpcc", "updates", "reads", "beside", "bytes", "clone", "speedtest1")
BATCHES = (1, 100, 1000, 10000)
ROW_BYTES = 230

# What a run does: rounds, megabytes of the large database, commits of each batch, updates, seconds of a reader, transactions
# of the mix, its warehouses, customers a district and items, commits whose bytes are counted.
EXTENTS = {
    "full": dict(rounds=5, large=1000, commits=(4000, 400, 60, 12), updates=4000, seconds=5, mix=4000,
                 scale=(2, 3000, 10000), counted=4000, speed=100),
    "quick": dict(rounds=3, large=100, commits=(1000, 60, 15, 4), updates=1000, seconds=1, mix=800,
                  scale=(1, 300, 1000), counted=2000, speed=10),
    "tiny": dict(rounds=1, large=1, commits=(5, 2, 1, 1), updates=5, seconds=0.05, mix=10,
                 scale=(1, 10, 100), counted=20, speed=1),
}


def disk_bytes(folder):
    """Bytes that were written so far to the disk that has the folder, by any process: all that was to be written is."""
    os.sync()
    device = os.stat(folder).st_dev
    with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat") as file:
        return int(file.read().split()[6]) * 512


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--extension", default=os.path.join(ROOT, "target/release/libtembo_sqlite.so"))
    parser.add_argument("--tembo", default=os.path.join(ROOT, "target/release/tembo"), help="for clones")
    parser.add_argument("--places", default="disk,memory")
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"), help="a folder on a disk")
    parser.add_argument("--memory", default="/dev/shm")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--contenders", help="names, with commas between them; all unless given")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--large", type=int, metavar="MB", help="size of the large database")
    parser.add_argument("--speedtest1", metavar="DIR", help="a checkout of SQLite's sources")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true")
    extent.add_argument("--tiny", action="store_true", help="shows only that it runs")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    args = parser.parse_args()
    args.extent = "quick" if args.quick else "tiny" if args.tiny else "full"
    args.of = dict(EXTENTS[args.extent])
    args.of["rounds"] = args.rounds or args.of["rounds"]
    args.of["large"] = args.large or args.of["large"]
    args.parts, args.places = args.parts.split(","), args.places.split(",")
    if unknown := set(args.parts) - set(PARTS) | set(args.places) - {"disk", "memory"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if not os.path.exists(args.extension):
        sys.exit(f"there is no {args.extension}: cargo build --release -p tembo-sqlite-extension")
    return args


class Bench:
    """A run: what was found, and what was left out."""

    def __init__(self, args):
        self.args, self.of = args, args.of
        self.rows, self.left_out, self.speed_program = [], [], None
        self.large_rows = self.of["large"] * 1_000_000 // ROW_BYTES
        wanted = args.contenders and args.contenders.split(",")
        self.contenders = [one for one in CONTENDERS if not wanted or one.name in wanted]

    def leave_out(self, what, why):
        if (what, why) not in self.left_out:
            self.left_out.append((what, why))
            print(f"left out: {what}: {why}", flush=True)

    def note(self, number, place, load, contender, found):
        self.rows.append({"round": number, "place": place, "load": load, "contender": contender, **found})
        text = ", ".join(f"{key} {value:,.6g}" for key, value in found.items() if not isinstance(value, bool))
        print(f"round {number}: {place} {load}: {contender}: {text}", flush=True)
        if found.get("right") is False:
            sys.exit(f"{place}, {load}, {contender}: the rows are wrong")

    def process(self, contender, folder, path, words=()):
        return Process(contender, self.args.extension, os.path.join(folder, path), folder, words)

    def commits(self, number, place, folder, contender):
        with self.process(contender, folder, "fresh") as process:
            for rows, commits in zip(BATCHES, self.of["commits"]):
                found = process.call("commits", rows=rows, commits=commits)
                self.note(number, place, f"commits of {rows}", contender.name, found)

    def tpcc(self, number, place, folder, contender):
        scale = self.of["scale"]
        with self.process(contender, folder, "fresh") as process:
            process.call("tpcc_fill", scale=scale)
            found = process.call("tpcc", transactions=self.of["mix"], scale=scale)
            self.note(number, place, "mix", contender.name, found)

    def updates(self, number, place, folder, contender):
        with self.process(contender, folder, contender.large) as process:
            found = process.call("updates", rows=self.large_rows, commits=self.of["updates"])
            self.note(number, place, "updates", contender.name, found)

    def reads(self, number, place, folder, contender):
        with self.process(contender, folder, contender.large) as process:
            found = process.call("reads", rows=self.large_rows, seconds=self.of["seconds"])
            self.note(number, place, "reads", contender.name, found)
            self.note(number, place, "scan", contender.name, process.call("scan", rows=self.large_rows))

    def beside(self, number, place, folder, contender):
        """A reader alone, then beside a writer in another process. Of Tembo's, the one that is opened first owns the pool."""
        orders = ("reader", "writer") if contender.is_tembo else ("",)
        for owner in orders:
            name = f"{contender.name}, {OWNER[owner]}" if owner else contender.name
            first = self.process(contender, folder, contender.large)
            with first, self.process(contender, folder, contender.large) as second:
                reader, writer = (second, first) if owner == "writer" else (first, second)
                read = dict(rows=self.large_rows, seconds=self.of["seconds"])
                self.note(number, place, "reader alone", name, reader.call("reads", **read))
                writer.send("updates", rows=self.large_rows, seconds=self.of["seconds"] * 1.1)
                found = reader.call("reads", **read)
                self.note(number, place, "reader beside", name, found)
                self.note(number, place, "writer beside", name, writer.receive())

    def bytes_written(self, number, place, folder, contender):
        """Bytes a commit: the difference of a long run and a short one, so that what an open and a close cost is not in it."""
        if place != "disk":
            return
        counts = (self.of["counted"], 2 * self.of["counted"])
        found = []
        for commits in counts:
            before = disk_bytes(folder)
            process = self.process(contender, folder, contender.large)
            process.call("updates", rows=self.large_rows, commits=commits)
            found.append({**process.close(), "disk": disk_bytes(folder) - before})
        per = {what: (found[1][what] - found[0][what]) / (counts[1] - counts[0]) for what in found[0]}
        self.note(number, place, "bytes", contender.name, {what: per[what] for what in ("wchar", "disk")})
        if strace := shutil.which("strace"):
            trace = os.path.join(folder, "strace")
            counted = [strace, "-f", "-c", "-e", "trace=fdatasync,fsync,pwrite64,pwritev2,write,pwritev,sync_file_range"]
            process = self.process(contender, folder, contender.large, [*counted, "-o", trace])
            process.call("updates", rows=self.large_rows, commits=self.of["counted"])
            process.close()
            with open(trace) as file:
                rows = [line.split() for line in file]
            calls = {name: sum(int(row[3]) for row in rows if row[-1:] == [name]) / self.of["counted"]
                     for name in ("fdatasync", "fsync", "pwrite64", "pwritev2")}
            # A pwritev2 of Tembo's log is durable when it returns.
            syncs = calls["fdatasync"] + calls["fsync"] + calls["pwritev2"]
            calls = {"syncs": syncs, "writes": calls["pwrite64"] + calls["pwritev2"]}
            self.note(number, place, "calls", contender.name, calls)
        else:
            self.leave_out("calls a commit", "there is no strace")

    def clone(self, number, place, folder, contender):
        """Snapshots and clones; of ordinary files a copy stands for both."""
        if contender.name == "wal FULL":
            began = time.perf_counter()
            copy = os.path.join(folder, "copy")
            shutil.copyfile(os.path.join(folder, contender.large), copy)
            with open(copy, "rb+") as file:
                os.fsync(file)
            found = {"ms": (time.perf_counter() - began) * 1000, "grew": os.stat(copy).st_blocks * 512}
            self.note(number, place, "copy", "file", found)
            os.unlink(copy)
        if contender.name != "tembo FULL":
            return
        with self.process(contender, folder, contender.large) as process:
            self.note(number, place, "snapshot", contender.name, process.call("snapshot", name="bench"))
        if place != "disk":
            # The commands of `tembo` open a pool as its medium is found.
            return self.leave_out("clone in memory", "measured on disk")
        if not os.path.exists(self.args.tembo):
            return self.leave_out("clone", f"there is no {self.args.tembo}")
        pool = os.path.join(folder, contender.large)
        before = self.tembo("stat", pool)[0]["used_bytes"]
        idle = self.tembo("sqlite", "list", pool)[1]
        spent = self.tembo("sqlite", "clone", pool, f"clone{number}")[1]
        after = self.tembo("stat", pool)[0]["used_bytes"]
        with self.process(contender, folder, os.path.join(contender.large, f"clone{number}")) as process:
            process.call("updates", rows=self.large_rows, commits=self.of["updates"])
        changed = self.tembo("stat", pool)[0]["used_bytes"]
        self.tembo("device", "remove", pool, f"clone{number}")
        per = (changed - after) / self.of["updates"]
        self.note(number, place, "clone", contender.name,
                  {"ms": spent, "list_ms": idle, "grew": after - before, "grew_a_change": per})

    def tembo(self, *words):
        """Runs a command; what it says, and milliseconds."""
        began = time.perf_counter()
        done = subprocess.run([self.args.tembo, *words, *([] if "remove" in words else ["--json"])],
                              capture_output=True, text=True)
        spent = (time.perf_counter() - began) * 1000
        if done.returncode:
            raise SystemExit(f"tembo {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[0]) if done.stdout else {}, spent

    def speedtest1(self, number, place, folder, contender):
        if not self.args.speedtest1:
            return self.leave_out("speedtest1", "there is no checkout: --speedtest1")
        if not self.speed_program:
            self.speed_program = os.path.join(self.args.out, "speedtest1")
            source = os.path.join(self.args.speedtest1, "test/speedtest1.c")
            loader = os.path.join(ROOT, "xtask/src/sqlite_suite/load.c")
            done = subprocess.run(["cc", "-O2", "-w", "-o", self.speed_program, source, loader, "-lsqlite3", "-lm"],
                                  capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"speedtest1 is not built:\n{done.stderr}")
        path = os.path.join(folder, "fresh")
        words = ["--size", str(self.of["speed"]), "--vfs", "tembo" if contender.is_tembo else "unix"]
        words += ["--journal", contender.journal] if contender.journal else []
        words += ["--nosync"] if contender.synchronous == "OFF" else []
        if contender.synchronous == "NORMAL":
            # It has no word for that.
            return
        began = time.perf_counter()
        target = f"file:{path}?domain={contender.domain(folder)}" if contender.is_tembo else path
        done = subprocess.run([self.speed_program, *words, target], capture_output=True, text=True,
                              env={**os.environ, "TEMBO_SQLITE_EXTENSION": self.args.extension})
        if done.returncode:
            sys.exit(f"speedtest1: {contender.name}: {done.stdout}{done.stderr}")
        self.note(number, place, "speedtest1", contender.name, {"s": time.perf_counter() - began})
        contender.remove(path)

    def prepare(self, place, folder):
        """Makes the large database as a file, and in a pool."""
        if not {"updates", "reads", "beside", "bytes", "clone"} & set(self.args.parts):
            return
        file = next(one for one in CONTENDERS if one.name == "wal NORMAL")
        pool = next(one for one in CONTENDERS if one.is_tembo)
        with self.process(file, folder, file.large) as process:
            print(f"{place}: the large database: {process.call('fill', rows=self.large_rows)}", flush=True)
            uri = pool.uri(os.path.join(folder, pool.large), pool.domain(folder))
            print(f"{place}: into a pool: {process.call('copy_to', uri=uri)}", flush=True)

    def in_order(self, number):
        """The contenders as a round has them: in each another one comes first, and every second round goes the other way, for the
        first finds a disk that has just been written to, and each finds it as the one before has left it."""
        first = (number - 1) % len(self.contenders)
        turned = self.contenders[first:] + self.contenders[:first]
        return turned[::-1] if number % 2 == 0 else turned

    def run(self):
        parts = {name: getattr(self, name) for name in PARTS if name != "bytes"}
        parts["bytes"] = self.bytes_written
        for place in self.args.places:
            above = self.args.disk if place == "disk" else self.args.memory
            with tempfile.TemporaryDirectory(prefix="tembo-bench-sqlite-", dir=above) as folder:
                self.prepare(place, folder)
                for number in range(1, self.of["rounds"] + 1):
                    for part in self.args.parts:
                        if part in ("bytes", "clone") and number > 1 and self.args.extent != "full":
                            continue
                        for contender in self.in_order(number):
                            try:
                                parts[part](number, place, folder, contender)
                            except Unable as error:
                                self.leave_out(f"{part} in round {number}, {place}, {contender.name}", str(error))
                            contender.remove(os.path.join(folder, "fresh"))


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    bench = Bench(args)
    load = os.getloadavg()[0]
    bench.run()
    sqlite_report.write(bench, args, (load, os.getloadavg()[0]))


if __name__ == "__main__":
    main()
