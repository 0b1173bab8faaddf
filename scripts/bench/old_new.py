#!/usr/bin/env python3
"""Two programs of the laboratory side by side: what a change costs the indexes and the store.

Rounds are interleaved: in each, both programs run `bench nvtree` and `bench records` with the round's seed, one first in
odd rounds, the other in even ones. Of each row the ratio new to old is shown three ways: of the medians, of the best rounds, and the
median of the rounds' own ratios with the least and the greatest. More than 1: new is faster. Operations a second of thread CPU time.

    scripts/bench/old_new.py --old 'old/tembo-lab bench' --new 'target/release/tembo-lab bench' --rounds 12

With `--processor N` both run on that one alone, and so do their threads of the background.

`--checksums` asks instead what the checksums of records cost: the new program twice, first without them.

`--transactions N` looks instead at N quick rounds of `bench transactions`, in commits a second.

One row can be looked at more closely: `--keys 0 --records 2048:20000 --rounds 40` runs only `bench records`, with records of 2,048 bytes.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTENDERS = ("cdds", "nvtree", "kv-cdds", "kv-nvtree")
# Bytes of a value, and how many records.
RECORDS = [(100, 60_000), (2048, 20_000)]
KEYS = 200_000
# A row is named when both its medians and its best rounds are below this.
AIM = 0.98


def size_and_count(text):
    size, _, count = text.partition(":")
    return int(size), int(count)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--old", help="the command before its experiment's name, with spaces between its words")
    parser.add_argument("--new", required=True)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--keys", type=int, default=KEYS, help="of 8 bytes in each index; 0: none")
    parser.add_argument("--records", type=size_and_count, action="append", metavar="BYTES:COUNT",
                        help=f"bytes of a value and how many records; may be given again; default: {RECORDS}")
    parser.add_argument("--transactions", type=int, metavar="ROUNDS", help="quick rounds of `bench transactions`, and nothing else")
    parser.add_argument("--checksums", action="store_true", help="--new, with checksums of records to without")
    parser.add_argument("--processor", help="on which both run; any unless given")
    parser.add_argument("--out", default=os.path.join(ROOT, "target/bench"))
    args = parser.parse_args()
    if args.checksums:
        args.old, args.keys = args.new, 0
    elif not args.old:
        parser.error("--old is needed, unless --checksums is given")
    return args


def ask(args, command, *words):
    pinned = ["taskset", "-c", args.processor] if args.processor else []
    done = subprocess.run([*pinned, *command.split(), *words, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command} {words[0]}: {done.stderr}")
    return json.loads(done.stdout)


def measure(args, command, seed, of_records):
    """Operations a second by row: bytes of the value, contender, operation. `of_records`: more words for `bench records`."""
    rows = {}
    if args.keys:
        found = ask(args, command, "nvtree", "--keys", str(args.keys), "--rounds", "1", "--seed", str(seed),
                    "--contenders", ",".join(CONTENDERS))
        for cell in found["cells"]:
            rows["8 B", cell["contender"], cell["operation"]] = cell["cpu"]["median"]
    for size, count in args.records or RECORDS:
        found = ask(args, command, "records", "--count", str(count), "--value-size", str(size), "--rounds", "1",
                    "--seed", str(seed), *of_records)
        for cell in found:
            rows[f"{size} B", cell["index"], cell["operation"]] = cell["cpu_kops"]
    return rows


def measure_transactions(command, seed):
    """Commits a second by row: keys of a transaction, kind and threads, where."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["transactions", "--quick", "--rounds", "1", "--seed", str(seed), "--out", folder]
        done = subprocess.run([*command.split(), *words], capture_output=True, text=True)
        # It ends with an error where few rounds say nothing of a claim; the figures are there all the same.
        try:
            with open(os.path.join(folder, "results.json")) as file:
                found = json.load(file)
        except OSError:
            raise SystemExit(f"{command} transactions: {done.stderr}") from None
    charts = [chart for finding in found["findings"] for chart in finding["charts"] if chart["title"] == "In memory"]
    return {(f"{point['at']} keys", one["name"], "commit"): point["value"]["median"]
            for chart in charts for one in chart["series"] for point in one["points"]}


def ratios(old, new):
    paired = sorted(after / before for before, after in zip(old, new))
    return statistics.median(new) / statistics.median(old), max(new) / max(old), paired


def report(rows, head):
    """The page of rows by name, each with the figures of the old program and of the new one."""
    lines = [head, "", "| value | contender | operation | medians | best rounds | rounds: median (least–greatest) | |",
             "|---|---|---|---|---|---|---|"]
    groups, below = {}, 0
    for (size, contender, operation), (old, new) in rows.items():
        median, best, paired = ratios(old, new)
        groups.setdefault((size, contender), []).append((median, best))
        is_below = median < AIM and best < AIM
        below += is_below
        lines.append(f"| {size} | {contender} | {operation} | {median:.2f} | {best:.2f} | {statistics.median(paired):.2f} "
                     f"({paired[0]:.2f}–{paired[-1]:.2f}) | {f'below {AIM}' if is_below else ''} |")
    lines += ["", f"{below} of {len(rows)} rows are below {AIM} by both. Geometric means of a contender's rows:", "",
              "| value | contender | medians | best rounds |", "|---|---|---|---|"]
    for (size, contender), found in groups.items():
        means = [statistics.geometric_mean(part) for part in zip(*found)]
        lines.append(f"| {size} | {contender} | {means[0]:.2f} | {means[1]:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    args = arguments()
    rows = {}
    rounds = args.transactions or args.rounds
    for number in range(1, rounds + 1):
        order = [(0, args.old, ["--without-checksums"] if args.checksums else []), (1, args.new, [])]
        for which, command, of_records in order if number % 2 else reversed(order):
            found = (measure_transactions(command, number) if args.transactions
                     else measure(args, command, number, of_records))
            for row, figure in found.items():
                rows.setdefault(row, ([], []))[which].append(figure)
        print(f"round {number} of {rounds}", flush=True)
    data = [f"{args.keys:,} keys of 8 bytes"] if args.keys else []
    data += [f"{count:,} records of {size} B" for size, count in args.records or RECORDS]
    if args.checksums:
        data.append("with checksums to without")
    if args.transactions:
        data = ["transactions in memory, quick"]
    head = (f"scripts/bench/old_new.py: {rounds} interleaved rounds, {' and '.join(data)}; {platform.machine()}, "
            f"load {os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}")
    text = report(rows, head)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "old-new.md"), "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
