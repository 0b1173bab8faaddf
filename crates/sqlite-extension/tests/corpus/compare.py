"""Random SQL on an ordinary file and on the VFS `tembo`, with the same SQLite: every answer and every error is the same.

    compare.py EXTENSION FOLDER SEED STATEMENTS [LEFT]   one database of each kind; LEFT is a change that the pool does not get

Without an extension (an empty EXTENSION) both are ordinary files: the comparison itself must agree.

A seed decides: whether the file has a rollback journal (then one connection at a time has a transaction) or a WAL (then
both may, and see and refuse the same), and whether the two connections are in one process or in two.
"""

import ast
import os
import random
import subprocess
import sys

from definitions import Definitions, Schema, look
from worker import Worker

EXTENSION, FOLDER = sys.argv[1:3]
SEED, STATEMENTS = int(sys.argv[3]), int(sys.argv[4])
LEFT = int(sys.argv[5]) if len(sys.argv) > 5 else None
BOTH = [0, 1]


class Plan:
    """What a seed decides for the whole run."""

    def __init__(self, seed):
        self.random = chance = random.Random(seed)
        self.has_wal, self.has_processes = seed % 2 == 1, seed // 2 % 2 == 1
        self.is_attached = chance.random() < 0.4
        self.page_size = chance.choice([512, 1024, 4096, 4096, 16384, 65536])
        self.auto_vacuum = chance.choice([0, 0, 1, 2])
        self.encoding = chance.choice(["utf-8", "utf-8", "utf-16le", "utf-16be"])
        self.has_off = not self.has_processes and chance.random() < 0.3
        # What was committed without a sync may be lost with the process.
        self.has_kills = not self.has_off
        self.schemas = ["main", "aux"] if self.is_attached else ["main"]

    def __str__(self):
        mode = "WAL" if self.has_wal else "journal"
        place = "two processes" if self.has_processes else "one process"
        return f"{mode}, {place}, pages of {self.page_size}, {self.encoding}, databases {len(self.schemas)}"


class Side:
    """One kind of database, and the processes that have it open."""

    def __init__(self, plan, name, extension):
        self.plan, self.name, self.extension = plan, name, extension
        self.workers = [None, None]
        for connection in BOTH:
            self.start(connection)

    def start(self, connection):
        is_first = self.plan.has_processes or self.workers[0] is None
        self.workers[connection] = Worker(self.extension) if is_first else self.workers[0]

    def uri(self, schema="main", more=""):
        if self.extension is None:
            return f"file:{FOLDER}/{self.name}.{schema}.db"
        device = "" if schema == "main" else f"/{schema}"
        return f"file:{FOLDER}/a.pool{device}?vfs=tembo{more}"

    def copy(self):
        return f"file:{FOLDER}/{self.name}.copy?vfs=unix"

    def request(self, step):
        """What the worker of a step's connection is asked for."""
        do, connection, *words = step
        if do == "open":
            return ["open", connection, self.uri(*words), 60 if self.extension else 0]
        if do == "attach":
            return ["sql", connection, f"attach '{self.uri(words[0])}' as {words[0]}", False]
        if do == "vacuum into":
            return ["sql", connection, f"vacuum into '{self.copy()}'", False]
        if do == "open copy":
            return ["open", connection, self.copy(), 0]
        if do == "content":
            return ["content", connection, self.plan.schemas]
        if do == "content of copy":
            return ["content", connection, ["main"]]
        return step

    def ask(self, step):
        self.worker(step).ask(*self.request(step))

    def answer(self, step):
        return self.worker(step).answer()

    def worker(self, step):
        """That of a connection; that of the first for a copy or the past."""
        return self.workers[step[1] if step[1] in BOTH else 0]

    def kill(self, connection):
        """Kills the process of a connection; its connections."""
        worker = self.workers[connection]
        worker.kill()
        lost = [number for number in BOTH if self.workers[number] is worker]
        for number in lost:
            self.workers[number] = None
        for number in lost:
            self.start(number)
        return lost

    def end(self):
        for worker in dict.fromkeys(self.workers):
            worker.end()


class Difference(Exception):
    pass


class Comparison:
    def __init__(self, plan):
        self.plan = plan
        self.sides = [Side(plan, "file", None), Side(plan, "tembo", EXTENSION or None)]
        self.random, self.schema = plan.random, Schema()
        places = [""] * 6 + ["temp."] + ["aux."] * 2 * plan.is_attached
        # After an id that is there twice an R-tree goes on reading, which keeps writers of a rollback journal out.
        self.definitions = Definitions(self.random, self.schema, places, has_rtree=plan.has_wal)
        # The third is of a copy.
        self.is_open, self.is_known = [False, False, False], False
        self.steps, self.errors, self.changed, self.kills, self.reopened = [], 0, 0, 0, 0
        self.remembered = {}

    def do(self, *step):
        """Has a step done by both; the answer, which is the same."""
        self.steps.append(step)
        file, pool = self.sides
        is_left = LEFT is not None and self.changed == LEFT and step[0] == "sql" and step[2].startswith("insert")
        file.ask(step)
        answer = file.answer(step)
        if is_left and answer["error"] is None and answer["changes"]:
            self.changed += 1
            return answer
        pool.ask(step)
        found = pool.answer(step)
        if answer != found:
            raise Difference(f"the file: {answer}\nthe pool: {found}")
        self.errors += answer["error"] is not None
        if step[0] == "sql":
            self.is_open[step[1]] = answer["is_open"]
            self.changed += step[2].startswith("insert") and answer["error"] is None
        return answer

    def sql(self, connection, sql, is_limited=True):
        return self.do("sql", connection, sql, is_limited)

    # Opening and closing.

    def open(self, connection, is_first=False):
        self.do("open", connection)
        for schema in self.plan.schemas[1:]:
            self.do("attach", connection, schema)
        for schema in self.plan.schemas:
            if is_first:
                self.sql(connection, f"pragma {schema}.page_size = {self.plan.page_size}")
                self.sql(connection, f"pragma {schema}.auto_vacuum = {self.plan.auto_vacuum}")
                self.sql(connection, f"pragma encoding = '{self.plan.encoding}'")
            if self.plan.has_wal:
                self.sql(connection, f"pragma {schema}.journal_mode = wal")
            if is_first:
                self.sql(connection, f"create table {schema}.t{len(schema) % 2}(a integer primary key, b text, c)")
        self.sql(connection, f"pragma cache_size = {self.random.choice([5, 20, 2000])}")
        self.sql(connection, f"pragma foreign_keys = {self.random.choice([0, 1])}")

    def reopen(self, connection):
        self.reopened += 1
        self.do("close", connection)
        self.forget([connection])
        self.open(connection)

    def forget(self, closed):
        """What went with connections: their transactions and their temporary tables."""
        self.is_known = False
        self.schema.forget("temp")
        for connection in closed:
            self.is_open[connection] = False

    def kill(self, connection):
        self.kills += 1
        self.steps.append(("kill", connection))
        lost = [side.kill(connection) for side in self.sides][0]
        for number in BOTH:
            if number not in lost:
                self.settle(number)
        self.forget(lost)
        for number in lost:
            self.open(number)

    def settle(self, connection):
        for side in self.sides:
            side.ask(["settle", connection])
            answer = side.answer(["settle", connection])
            if answer["error"]:
                raise Difference(f"{side.name}, after a kill: {answer}")

    # Steps.

    def step(self):
        opened = [number for number in BOTH if self.is_open[number]]
        connection = self.random.choice(BOTH)
        if opened and not self.plan.has_wal:
            # A rollback journal keeps readers out that a pool lets in.
            connection = opened[0]
        is_idle = not self.is_open[1 - connection]
        form = self.random.random()
        if not self.is_known and not self.is_open[connection] and self.random.random() < 0.6:
            self.look(connection)
        elif form < (0.17 if opened else 0.12):
            self.sql(connection, self.transaction(self.is_open[connection]))
        elif form < 0.19:
            self.sql(connection, self.pragma())
        elif form < 0.21:
            self.check(connection)
        elif form < 0.23:
            self.sql(connection, self.random.choice(["vacuum", "vacuum", "analyze", "reindex", "pragma optimize"]))
        elif form < 0.24 and is_idle:
            self.reopen(connection)
        elif form < 0.245 and is_idle and self.plan.has_kills:
            self.kill(connection)
        elif form < 0.25 and not any(self.is_open):
            self.remember(connection)
        elif form < 0.35 or not self.schema.tables():
            self.is_known = False
            self.sql(connection, self.definitions.definition())
        elif form < 0.37:
            self.sql(connection, self.definitions.of_text())
        else:
            kinds = ["insert", "insert", "insert", "insert", "update", "update", "delete", "select", "select", "select", "select"]
            self.sql(connection, getattr(self.definitions, self.random.choice(kinds))())

    def look(self, connection):
        self.is_known = True
        for schema in self.plan.schemas + ["temp"]:
            answer = self.sql(connection, look(schema), False)
            if answer["error"]:
                self.schema.forget(schema)
                continue
            rows = [ast.literal_eval(row) for row in answer["rows"]]
            text = lambda value: value.decode() if isinstance(value, bytes) else value
            self.schema.take(schema, [[text(value) for value in row] for row in rows])

    def transaction(self, is_open):
        name = f"s{self.random.randrange(3)}"
        begin = [f"begin {self.random.choice(['', 'deferred', 'immediate', 'exclusive'])}", f"savepoint {name}"]
        if not is_open:
            return self.random.choice([begin[0], begin[0], begin[1]])
        inner = [begin[1], begin[1], f"release {name}", f"rollback to {name}", f"rollback to {name}"]
        self.is_known = False
        return self.random.choice(inner + ["commit", "commit", "commit", "rollback"])

    def pragma(self):
        number = lambda *choices: self.random.choice(choices)
        choices = [
            f"user_version = {number(0, 7, -1)}", f"cache_size = {number(3, 10, 100, -500)}", f"cache_spill = {number(0, 1)}",
            f"synchronous = {number('normal', 'full', 'extra', *['off'] * self.plan.has_off)}",
            f"incremental_vacuum({number(0, 1, 9)})", f"secure_delete = {number(0, 1)}", f"max_page_count = {number(60, 300, 1 << 30)}",
            f"max_page_count = {1 << 30}", f"foreign_keys = {number(0, 1)}", f"recursive_triggers = {number(0, 1)}",
            f"defer_foreign_keys = {number(0, 1)}", f"reverse_unordered_selects = {number(0, 1)}", "schema_version", "page_count",
            "freelist_count", "foreign_key_check", f"auto_vacuum = {number(0, 1, 2)}", f"temp_store = {number(1, 2)}",
            f"legacy_alter_table = {number(0, 1)}",
        ]  # fmt: skip
        if not self.plan.has_wal:
            choices += [f"journal_mode = {number('delete', 'truncate', 'persist', 'memory')}"] * 2
            choices += [f"page_size = {number(512, 1024, 4096, 8192, 65536)}"] * 2
        return f"pragma {self.random.choice(choices)}"

    def check(self, connection):
        self.sql(connection, f"pragma {self.random.choice(['integrity_check', 'quick_check'])}", False)

    def remember(self, connection):
        """A snapshot, which is compared at the end with what the file had."""
        if not EXTENSION:
            return
        name = f"then{len(self.remembered)}"
        pool = self.sides[1]
        step = ["sql", connection, f"pragma tembo_snapshot = {name}", False]
        pool.ask(step)
        answer = pool.answer(step)
        if answer["error"]:
            raise Difference(f"a snapshot: {answer}")
        self.remembered[name] = self.do("content", connection)

    # The end.

    def finish(self):
        for connection in BOTH:
            if self.is_open[connection]:
                self.sql(connection, "rollback")
        for connection in BOTH:
            self.sql(connection, "pragma integrity_check", False)
            self.do("content", connection)
        self.do("vacuum into", 0)
        # Its bytes are not compared: where a page has no cells, SQLite leaves what its memory had.
        self.do("open copy", 2)
        self.sql(2, "pragma integrity_check", False)
        self.sql(2, "pragma page_count", False)
        self.do("content of copy", 2)
        self.do("close", 2)
        for name, wanted in self.remembered.items():
            self.past(name, wanted)
        for connection in BOTH:
            self.do("close", connection)
        self.open(0)
        self.sql(0, "pragma integrity_check", False)
        self.do("content", 0)
        self.do("close", 0)
        for side in self.sides:
            side.end()

    def past(self, name, wanted):
        pool = self.sides[1]
        worker = pool.workers[0]

        def answer(*request):
            worker.ask(*request)
            return worker.answer()

        found = [answer("open", 2, pool.uri(more=f"&snapshot={name}"), 60)]
        for schema in self.plan.schemas[1:]:
            found.append(answer("sql", 2, f"attach '{pool.uri(schema, f'&snapshot={name}')}' as {schema}", False))
        if any(one["error"] for one in found):
            raise Difference(f"snapshot {name}: {found}")
        found = answer("content", 2, self.plan.schemas)
        answer("close", 2)
        if found != wanted:
            raise Difference(f"snapshot {name}:\nthe file: {wanted}\nthe pool: {found}")


def is_chance(step):
    """Whether two ordinary files differ at the same step: by an id that SQLite has chosen by chance, behind the largest one."""
    folder = os.path.join(FOLDER, "again")
    os.mkdir(folder)
    again = subprocess.run([sys.executable, "-B", __file__, "", folder, *sys.argv[3:]], stdout=subprocess.PIPE, text=True)
    return again.returncode == 1 and f"step {step} differs" in again.stdout


def main():
    plan = Plan(SEED)
    print(f"TEMBO_SEED={SEED}: {plan}", flush=True)
    comparison = Comparison(plan)
    try:
        comparison.open(0, is_first=True)
        comparison.open(1)
        while len(comparison.steps) < STATEMENTS:
            comparison.step()
        comparison.finish()
    except Difference as difference:
        if EXTENSION and LEFT is None and is_chance(len(comparison.steps)):
            print("    left out: two ordinary files differ at the same step, by chance")
            return
        for step in comparison.steps[-12:]:
            print("   ", *step)
        print(f"{difference}\nTEMBO_SEED={SEED}: step {len(comparison.steps)} differs")
        sys.exit(1)
    count = len(comparison.steps)
    print(f"    {count} steps, {comparison.errors} of them errors, {comparison.reopened} reopened, {comparison.kills} killed")
    if comparison.errors * 2 > count:
        print("more errors than answers")
        sys.exit(1)


main()
