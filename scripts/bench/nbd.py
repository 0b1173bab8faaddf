#!/usr/bin/env python3
"""`tembo device serve` and nbdkit's file plugin on one disk, side by side, by fio's NBD engine.

Rounds are interleaved: in each, either server does every load once, and ratios are taken within a round. Both serve at a Unix
socket a device whose bytes were all written before. `fsync`: fio sends a FLUSH after each write, so that each is durable when the
next one begins. Without it one FLUSH at the end is part of the time. Tembo's pool is `logged`, and each of its writes is untorn, which
the file's are not.

    apt-get install --no-install-recommends nbdkit fio
    cargo build --release -p tembo-cli
    scripts/bench/nbd.py            everything, with a device of 1 GB: about twenty minutes
    scripts/bench/nbd.py --quick    a look, two minutes
"""

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_S = 20
SERVERS = ("tembo", "nbdkit file")
SIZES = ("4k", "64k", "1m")

# Name, how fio calls it, whether each write is followed by a FLUSH, requests at a time.
LOADS = [
    ("random writes", "randwrite", False, 16),
    ("sequential writes", "write", False, 16),
    ("random writes, fsync", "randwrite", True, 1),
    ("sequential writes, fsync", "write", True, 1),
    ("random reads", "randread", False, 16),
    ("sequential reads", "read", False, 16),
]

EXTENTS = {
    "full": dict(rounds=5, size=1024, seconds=4),
    "quick": dict(rounds=3, size=128, seconds=1),
    "tiny": dict(rounds=1, size=4, seconds=0.1),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tembo", default=os.path.join(ROOT, "target/release/tembo"))
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"), help="a folder on a disk")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--loads", help="names, with semicolons between them; all unless given")
    parser.add_argument("--rounds", type=int)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true")
    extent.add_argument("--tiny", action="store_true", help="shows only that it runs")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    args = parser.parse_args()
    args.extent = "quick" if args.quick else "tiny" if args.tiny else "full"
    args.of = dict(EXTENTS[args.extent])
    args.of["rounds"] = args.rounds or args.of["rounds"]
    if not os.path.exists(args.tembo):
        sys.exit(f"there is no {args.tembo}: cargo build --release -p tembo-cli")
    return args


def missing():
    """What is not installed, and what is left out without it."""
    lacks = {}
    if not shutil.which("nbdkit"):
        lacks["nbdkit file"] = "there is no nbdkit"
    engines = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout if shutil.which("fio") else ""
    if "nbd" not in engines.split():
        lacks["all"] = "there is no fio with the engine nbd"
    return lacks


class Server:
    """A server of one device, in a folder of its own."""

    def __init__(self, name, args, above):
        self.name, self.args = name, args
        self.folder = tempfile.mkdtemp(prefix="nbd-", dir=above)
        self.socket = os.path.join(self.folder, "socket")
        megabytes = args.of["size"]
        if name == "tembo":
            pool = os.path.join(self.folder, "pool")
            self.done([args.tembo, "device", "create", pool, "disk", "--len", f"{megabytes}M", "--fixed"])
            self.command = [args.tembo, "device", "serve", pool, "disk", "--socket", self.socket, "--domain", "logged"]
            self.uri = f"nbd+unix:///disk?socket={self.socket}"
        else:
            path = os.path.join(self.folder, "file")
            with open(path, "wb") as file:
                file.truncate(megabytes << 20)
            self.command = ["nbdkit", "--foreground", "--unix", self.socket, "file", path]
            self.uri = f"nbd+unix:///?socket={self.socket}"
        self.process = None

    def done(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")

    def start(self):
        with open(os.path.join(self.folder, "output"), "ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        end = time.monotonic() + PATIENCE_S
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{' '.join(self.command)} did not start: {self.output()}")
            time.sleep(0.01)

    def output(self):
        with open(os.path.join(self.folder, "output"), errors="replace") as output:
            return output.read()

    def written(self):
        """Bytes that the process has passed to write calls, those to its socket included."""
        with open(f"/proc/{self.process.pid}/io") as file:
            return int(re.search(r"wchar: (\d+)", file.read())[1])

    def cpu(self):
        """Microseconds of processor time that the process has taken."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            ticks = file.read().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, ticks)) * 1e6 / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
        self.process = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def fio(server, *words):
    """Runs one job; what fio says of it."""
    command = ["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--output-format=json", *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    start = done.stdout.find("{")
    if done.returncode or start < 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    job = json.loads(done.stdout[start:])["jobs"][0]
    if job["error"]:
        sys.exit(f"{' '.join(command)}: error {job['error']}")
    return job


def verify(server, args):
    """What is written is what is read: a part of the device, by checksums."""
    fio(server, "--rw=randwrite", "--bs=4k", f"--size={args.of['size']}M", "--number_ios=500", "--iodepth=8",
        "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0")


def load(server, name, rw, syncs, depth, size, args):
    words = [f"--rw={rw}", f"--bs={size}", f"--size={args.of['size']}M", f"--iodepth={depth}", "--time_based",
             f"--runtime={int(args.of['seconds'] * 1000)}ms", "--randrepeat=0", "--norandommap"]
    words += ["--fsync=1"] if syncs else ["--end_fsync=1"] if "write" in rw else []
    before, cpu = server.written(), server.cpu()
    job = fio(server, *words)
    side = job["read" if "read" in rw else "write"]
    # Milliseconds; that of the FLUSH at the end is among them.
    seconds = max(side["runtime"] / 1000, 1e-3)
    found = {"ios_s": side["total_ios"] / seconds, "mb_s": side["io_bytes"] / seconds / 1e6,
             "p99_us": side["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1000,
             "cpu_us": (server.cpu() - cpu) / max(side["total_ios"], 1)}
    if "write" in rw:
        found["written"] = (server.written() - before) / max(side["io_bytes"], 1)
    return found


def measure(args, names, above):
    rows = []
    chosen = args.loads and args.loads.split(";")
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(name, args, above)) for name in names]
        for server in servers:
            server.start()
            fio(server, "--rw=write", "--bs=1m", f"--size={args.of['size']}M", "--end_fsync=1")
            verify(server, args)
        for number in range(1, args.of["rounds"] + 1):
            for name, rw, syncs, depth in LOADS:
                if chosen and name not in chosen:
                    continue
                for size in args.sizes.split(","):
                    for server in servers:
                        found = load(server, name, rw, syncs, depth, size, args)
                        rows.append({"round": number, "load": name, "size": size, "server": server.name, **found})
                        text = ", ".join(f"{key} {value:,.5g}" for key, value in found.items())
                        print(f"round {number}: {name} {size}: {server.name}: {text}", flush=True)
        for server in servers:
            verify(server, args)
    return rows


def spread(values):
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f}–{max(values):.2f})"


def text(rows, left_out, loads, args):
    kind = {"full": "", "quick": " `--quick`: a look, not to be published;", "tiny": " `--tiny`: it shows only that it runs;"}
    lines = [f"scripts/bench/nbd.py:{kind[args.extent]} {args.of['rounds']} interleaved rounds, a device of {args.of['size']} MiB, "
             f"{args.of['seconds']} s a load; {platform.machine()}, {os.cpu_count()} cores, load {loads[0]:.1f} before and "
             f"{loads[1]:.1f} after; {time.strftime('%Y-%m-%d')}", "",
             "| load | size | server | requests/s | MB/s | p99 µs | server's CPU µs a request | bytes written to a byte | tembo to it: median (least–most) |",
             "|---|---|---|---|---|---|---|---|---|"]
    cells = {}
    for row in rows:
        cells.setdefault((row["load"], row["size"], row["server"]), {})[row["round"]] = row
    for (load, size, server), found in sorted(cells.items(), key=lambda cell: [one[0] for one in LOADS].index(cell[0][0])):
        def middle(key):
            return statistics.median(row[key] for row in found.values() if key in row)
        ours = cells.get((load, size, "tembo"), {})
        ratios = [ours[number]["ios_s"] / row["ios_s"] for number, row in found.items() if number in ours and row["ios_s"]]
        written = f"{middle('written'):.2f}" if "written" in next(iter(found.values())) else ""
        lines.append(f"| {load} | {size} | {server} | {middle('ios_s'):,.0f} | {middle('mb_s'):,.0f} | {middle('p99_us'):,.0f} | {middle('cpu_us'):,.1f} | "
                     f"{written} | {'' if server == 'tembo' or not ratios else spread(ratios)} |")
    if left_out:
        lines += ["", "Left out:", "", *(f"- {what}: {why}" for what, why in left_out.items())]
    return "\n".join(lines) + "\n"


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    left_out, before, rows = missing(), os.getloadavg()[0], []
    for what, why in left_out.items():
        print(f"left out: {what}: {why}", flush=True)
    if "all" not in left_out:
        with tempfile.TemporaryDirectory(prefix="tembo-bench-nbd-", dir=args.disk) as above:
            rows = measure(args, [name for name in SERVERS if name not in left_out], above)
    found = text(rows, left_out, (before, os.getloadavg()[0]), args)
    with open(os.path.join(args.out, "nbd.md"), "w") as file:
        file.write(found)
    with open(os.path.join(args.out, "nbd.json"), "w") as file:
        json.dump({"extent": args.extent, "of": args.of, "rows": rows, "left_out": left_out}, file, indent=1)
    print(f"\n{found}\nwritten to {args.out}/nbd.md and nbd.json")


if __name__ == "__main__":
    main()
