"""What sqlite.py has found, as Markdown and JSON."""

import json
import os
import platform
import sqlite3
import statistics
import time

# Load, figure, heading, whether more is better.
TABLES = [
    ("commits of 1", "rows_s", "rows/s, a commit a row", True),
    ("commits of 100", "rows_s", "rows/s, commits of 100", True),
    ("commits of 1000", "rows_s", "rows/s, commits of 1,000", True),
    ("commits of 10000", "rows_s", "rows/s, commits of 10,000", True),
    ("updates", "rows_s", "updates/s of the large database, a commit each", True),
    ("mix", "tx_s", "transactions/s of the mix", True),
    ("reads", "rows_s", "rows/s, random reads of the large database", True),
    ("scan", "rows_s", "rows/s, all of the large database", True),
    ("speedtest1", "s", "speedtest1, s", False),
    ("bytes", "wchar", "bytes of write calls a commit", False),
    ("bytes", "disk", "bytes a commit that the disk counts, of all processes", False),
    ("calls", "syncs", "fsync, fdatasync and durable pwritev2 a commit", False),
    ("calls", "writes", "pwrite64 and pwritev2 a commit", False),
]

# Contender's figure to that of another: what, place, load, figure, of which, to which, at least or at most.
AIMS = [
    ("single-row commits to WAL", "disk", "commits of 1", "rows_s", "tembo FULL", "wal FULL", ">=", 1.2),
    ("single-row commits to the rollback journal", "disk", "commits of 1", "rows_s", "tembo FULL", "journal FULL", ">=", 4),
    ("single-row commits to WAL", "memory", "commits of 1", "rows_s", "tembo FULL", "wal FULL", ">=", 3),
    ("random reads to the file", "disk", "reads", "rows_s", "tembo FULL", "wal FULL", ">=", 1 / 1.1),
    ("random reads to the file", "memory", "reads", "rows_s", "tembo FULL", "wal FULL", ">=", 1 / 1.1),
    ("scan to the file", "disk", "scan", "rows_s", "tembo FULL", "wal FULL", ">=", 1 / 1.1),
    ("scan to the file", "memory", "scan", "rows_s", "tembo FULL", "wal FULL", ">=", 1 / 1.1),
    ("bytes a commit to WAL with its checkpoints", "disk", "bytes", "wchar", "tembo FULL", "wal FULL", "<=", 1),
    ("the same as the disk counts", "disk", "bytes", "disk", "tembo FULL", "wal FULL", "<=", 1),
]


def figures(rows, place, load, contender, figure):
    """By round."""
    return {row["round"]: row[figure] for row in rows
            if (row["place"], row["load"], row["contender"]) == (place, load, contender) and figure in row}


def ratio(rows, place, load, figure, of, to):
    """The ratios of the rounds."""
    ours, theirs = figures(rows, place, load, of, figure), figures(rows, place, load, to, figure)
    return sorted(ours[number] / theirs[number] for number in ours if theirs.get(number))


def spread(values, form="{:.2f}"):
    if not values:
        return ""
    middle = form.format(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({form.format(values[0])}–{form.format(values[-1])})"


def table(rows, place, load, figure, heading):
    names = list(dict.fromkeys(row["contender"] for row in rows if row["place"] == place and row["load"] == load))
    has_latency = any("p99_us" in row for row in rows if row["place"] == place and row["load"] == load)
    if not names:
        return []
    lines = ["", f"**{heading}**, on {place}:" if place == "disk" else f"**{heading}**, in memory:", ""]
    lines += ["| | median | least–most |" + (" p50 µs | p99 µs | CPU µs |" if has_latency else "") + " tembo FULL to it | tembo NORMAL to it | tembo OFF to it |",
              "|---|---|---|" + ("---|---|---|" if has_latency else "") + "---|---|---|"]
    for name in names:
        found = sorted(figures(rows, place, load, name, figure).values())
        form = "{:,.0f}" if found[-1] >= 100 else "{:.2f}"
        cells = [name, form.format(statistics.median(found)), f"{form.format(found[0])}–{form.format(found[-1])}"]
        if has_latency:
            cells += [f"{statistics.median(figures(rows, place, load, name, key).values()):,.0f}" for key in ("p50_us", "p99_us", "cpu_us")]
        ours = ["" if name.startswith("tembo") else spread(ratio(rows, place, load, figure, of, name))
                for of in ("tembo FULL", "tembo NORMAL", "tembo OFF")]
        lines.append("| " + " | ".join(cells + ours) + " |")
    return lines


def beside(rows, place):
    """Readers, alone and beside a writer."""
    names = list(dict.fromkeys(row["contender"] for row in rows if row["place"] == place and row["load"] == "reader beside"))
    if not names:
        return []
    where = "on disk" if place == "disk" else "in memory"
    lines = ["", f"**A reader beside a writer**, {where}, each in a process of its own; medians:", "",
             "| | alone p50 µs | p99 µs | beside p50 µs | p99 µs | longer, p99: median (least–most) | reads/s | commits/s of the writer |",
             "|---|---|---|---|---|---|---|---|"]
    for name in names:
        def middle(load, key):
            return statistics.median(figures(rows, place, load, name, key).values())
        alone, with_writer = (figures(rows, place, load, name, "p99_us") for load in ("reader alone", "reader beside"))
        longer = sorted(with_writer[number] / alone[number] for number in with_writer)
        cells = [f"{middle(load, key):,.0f}" for load in ("reader alone", "reader beside") for key in ("p50_us", "p99_us")]
        cells += [spread(longer), f"{middle('reader beside', 'rows_s'):,.0f}", f"{middle('writer beside', 'rows_s'):,.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def copies(rows, place, large):
    lines = []
    for load, what in (("snapshot", "a snapshot (PRAGMA tembo_snapshot)"), ("clone", "`tembo sqlite clone`"), ("copy", "a copy of the file, synced")):
        found = [row for row in rows if row["place"] == place and row["load"] == load]
        if not found:
            continue
        text = f"- {what}: {spread(sorted(row['ms'] for row in found))} ms"
        if load == "clone":
            idle = statistics.median(row["list_ms"] for row in found)
            text += f" (`tembo sqlite list`, which opens the pool too: {idle:.2f} ms)"
        if "grew" in found[0]:
            text += f"; takes {statistics.median(row['grew'] for row in found):,.0f} bytes"
        if "grew_a_change" in found[0]:
            text += f", and {statistics.median(row['grew_a_change'] for row in found):,.0f} for each row changed in it"
        lines.append(text)
    where = "on disk" if place == "disk" else "in memory"
    return ["", f"Of the large database ({large} MB), {where}:", "", *lines] if lines else []


def aims(rows):
    lines = ["", "| aim | where | wanted | found | |", "|---|---|---|---|---|"]
    for what, place, load, figure, of, to, sign, wanted in AIMS:
        found = ratio(rows, place, load, figure, of, to)
        if not found:
            continue
        middle = statistics.median(found)
        is_met = middle >= wanted if sign == ">=" else middle <= wanted
        lines.append(f"| {what} | {place} | {sign} {wanted:.2f} | {spread(found)} | {'met' if is_met else 'missed'} |")
    for place in ("disk", "memory"):
        for row in {row["contender"]: row for row in rows if row["place"] == place and row["load"] == "reader beside"}:
            if not row.startswith("tembo FULL"):
                continue
            ours = figures(rows, place, "reader beside", row, "p99_us")
            theirs = figures(rows, place, "reader beside", "wal FULL", "p99_us")
            found = sorted(ours[number] / theirs[number] for number in ours if number in theirs)
            if found:
                verdict = "met" if statistics.median(found) <= 1 else "missed"
                lines.append(f"| p99 of a reader beside a writer to WAL ({row[12:]}) | {place} | <= 1.00 | {spread(found)} | {verdict} |")
    return lines if len(lines) > 3 else []


def text(bench, args, load):
    rows, of = bench.rows, bench.of
    kind = {"full": "", "quick": " `--quick`: a look, not to be published;", "tiny": " `--tiny`: it shows only that it runs;"}
    lines = [f"scripts/bench/sqlite.py:{kind[args.extent]} {of['rounds']} interleaved rounds; a large database of {of['large']} MB; "
             f"SQLite {sqlite3.sqlite_version} of {platform.python_implementation()} {platform.python_version()}; "
             f"{platform.machine()}, {os.cpu_count()} cores, load {load[0]:.1f} before and {load[1]:.1f} after; {time.strftime('%Y-%m-%d')}"]
    lines += aims(rows)
    for place in args.places:
        for name, figure, heading, _ in TABLES:
            lines += table(rows, place, name, figure, heading)
        lines += beside(rows, place)
        lines += copies(rows, place, of["large"])
    if bench.left_out:
        lines += ["", "Left out:", "", *(f"- {what}: {why}" for what, why in bench.left_out)]
    return "\n".join(lines) + "\n"


def write(bench, args, load):
    found = text(bench, args, load)
    with open(os.path.join(args.out, "sqlite.md"), "w") as file:
        file.write(found)
    with open(os.path.join(args.out, "sqlite.json"), "w") as file:
        json.dump({"extent": args.extent, "of": bench.of, "load": load, "rows": bench.rows, "left_out": bench.left_out}, file, indent=1)
    print(f"\n{found}\nwritten to {args.out}/sqlite.md and sqlite.json")
