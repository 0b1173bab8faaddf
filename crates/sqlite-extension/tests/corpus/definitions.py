"""Random changes of a schema, and what is known of it."""

from statements import Statements

COLUMNS = ["a", "b", "c", "d", "e", "f"]
STRICT = ["integer", "real", "text", "blob", "any"]


class Schema:
    """Tables and views with their columns, as the last look found them: name, kind, and whether it is stored."""

    def __init__(self):
        self.found = {}
        self.others = {"index": [], "trigger": [], "view": []}

    def take(self, schema, rows):
        """The rows of [`look`] at one of the databases."""
        prefix = "" if schema == "main" else f"{schema}."
        self.forget(schema)
        for type, name, column, kind, hidden in rows:
            # Tables of SQLite's own, and what virtual tables stand on.
            if "_" in name:
                continue
            if type != "table":
                self.others[type].append(prefix + name)
            elif column is not None and hidden != 1:
                self.found.setdefault(prefix + name, []).append((column, kind.lower(), hidden == 0))

    def forget(self, schema):
        is_of = lambda name: name.startswith(f"{schema}.") if schema != "main" else "." not in name
        self.found = {name: columns for name, columns in self.found.items() if not is_of(name)}
        for type, names in self.others.items():
            self.others[type] = [name for name in names if not is_of(name)]

    def tables(self):
        return list(self.found)

    def names(self):
        return list(self.found) + self.others["view"]

    def columns(self, name):
        if name not in self.found:
            # Every view has these.
            return [("p", ""), ("q", ""), ("r", "")]
        return [(column, kind) for column, kind, _ in self.found[name]]

    def stored(self, name):
        return [(column, kind) for column, kind, is_stored in self.found[name] if is_stored] or [("rowid", "integer")]


def look(schema):
    """What there is in one of the databases of a connection."""
    return (
        f"select m.type, m.name, x.name, x.type, x.hidden from {schema}.sqlite_schema m "
        f"left join pragma_table_xinfo(m.name, '{schema}') x on m.type = 'table' order by m.rowid, x.cid"
    )


class Definitions(Statements):
    """Tables, indexes, views, triggers: made, changed, removed. `places` are the databases for tables."""

    def __init__(self, random, schema, places, has_rtree):
        super().__init__(random, schema)
        self.places, self.has_rtree = places, has_rtree

    def name(self, letter, count=5):
        return f"{letter}{self.random.randrange(count)}"

    def place(self):
        return self.random.choice(self.places)

    def definition(self):
        tables = self.schema.tables()
        if len(tables) < 3:
            return self.create_table()
        makes = [self.create_table, self.create_index, self.create_index, self.create_view, self.create_trigger]
        changes = [self.alter, self.alter, self.alter, self.drop, self.create_virtual]
        return self.random.choice(makes + changes)()

    def create_table(self):
        name = self.place() + self.name("t", 6)
        exists = self.one_of("", "", "if not exists ")
        if self.schema.names() and self.chance(0.1):
            return f"create table {exists}{name} as {self.select(1, ['a', 'b', 'c'])}"
        is_strict = self.chance(0.1)
        columns = COLUMNS[: self.random.randint(2, len(COLUMNS))]
        lines, has_key, known = [], False, []
        for column in columns:
            kind = self.random.choice(STRICT if is_strict else ["integer", "integer", "text", "real", "blob", "numeric", ""])
            if not has_key and self.chance(0.3):
                has_key = True
                kind = self.one_of("integer", kind)
                more = " autoincrement" if kind == "integer" and self.chance(0.2) else ""
                lines.append(f"{column} {kind} primary key{more}")
            elif known and self.chance(0.12):
                made = self.one_of(f"{known[0]} || '!'", f"length({known[-1]})", f"{known[-1]} + 1")
                lines.append(f"{column} {kind} as ({made}) {self.one_of('stored', 'virtual')}")
            else:
                lines.append(f"{column} {kind}{self.constraint(column, kind)}")
            known.append(column)
        if not has_key and self.chance(0.4):
            has_key = True
            lines.append(f"primary key ({', '.join(self.some_of(known, 2))})")
        if self.chance(0.2):
            lines.append(f"unique ({', '.join(self.some_of(known, 2))}){self.one_of('', ' on conflict replace')}")
        options = ["strict"] * is_strict + ["without rowid"] * (has_key and self.chance(0.3))
        return f"create table {exists}{name}({', '.join(lines)}) {', '.join(options)}"

    def constraint(self, column, kind):
        form = self.random.random()
        if form < 0.1:
            return f" not null default {self.random.randint(0, 9)}"
        if form < 0.2:
            return " unique" + self.one_of("", " on conflict ignore", " on conflict replace")
        if form < 0.3:
            return f" check ({self.one_of(f'length({column}) < 5000', f'{column} is not 13')})"
        if form < 0.42:
            return f" collate {self.one_of('nocase', 'rtrim')}"
        if form < 0.52:
            action = self.one_of("cascade", "set null", "set default", "restrict")
            late = self.one_of("", " deferrable initially deferred")
            return f" references {self.name('t', 6)}(a) on delete {action} on update {self.one_of('cascade', action)}{late}"
        return f" default {self.literal()}" if form < 0.6 else ""

    def create_index(self):
        table = self.random.choice(self.schema.tables())
        columns = self.schema.columns(table)
        term = lambda column: self.one_of(column, column, f"lower({column})", f"{column} + 1", f"length({column})")
        order = lambda: self.one_of("", "", " desc", " collate nocase")
        terms = ", ".join(term(column) + order() for column, _ in self.some_of(columns, 3))
        where = f" where {columns[0][0]} {self.one_of('notnull', '> 3', 'is not null')}" if self.chance(0.2) else ""
        place, _, table = table.rpartition(".")
        name = f"{place}.{self.name('i', 8)}" if place else self.name("i", 8)
        return f"create {self.one_of('', '', '', 'unique ')}index {name} on {table}({terms}){where}"

    def create_view(self):
        return f"create view {self.name('v', 4)}(p, q, r) as {self.select(1, ['p', 'q', 'r'])}"

    def create_trigger(self):
        names = [name for name in self.schema.names() if "." not in name]
        if not names:
            return self.create_table()
        table = self.random.choice(names)
        columns = [column for column, _ in self.schema.columns(table)]
        when = "instead of" if table in self.schema.others["view"] else self.one_of("before", "after", "after")
        event = self.one_of("insert", "update", "delete", f"update of {columns[0]}")
        row = self.one_of("new", "old")
        condition = f" when {row}.{self.random.choice(columns)} {self.one_of('> 5', 'notnull', 'is not 1')}"
        body = "; ".join(self.of_a_trigger(row, columns) for _ in range(self.random.randint(1, 2)))
        head = f"create trigger {self.name('g')} {when} {event} on {table}"
        return f"{head}{condition if self.chance(0.6) else ''} begin {body}; end"

    def of_a_trigger(self, row, columns):
        value = lambda: f"{row}.{self.random.choice(columns)}"
        if self.chance(0.15):
            end = self.one_of("abort, 'no'", "fail, 'no'", "rollback, 'no'", "ignore")
            return f"select raise({end})"
        names = [name for name in self.schema.tables() if "." not in name] or ["t0"]
        table = self.random.choice(names)
        stored = self.schema.stored(table) if table in self.schema.found else [("a", "")]
        column = self.random.choice(stored)[0]
        if self.chance(0.5):
            return f"insert or ignore into {table}({column}) values ({value()})"
        if self.chance(0.5):
            return f"update or ignore {table} set {column} = {value()} where {column} = {value()}"
        return f"delete from {table} where {column} = {value()}"

    def create_virtual(self):
        if not self.has_rtree or self.chance(0.6):
            return f"create virtual table {self.name('f', 2)} using fts5(p, q)"
        return f"create virtual table {self.name('r', 2)} using rtree(id, x, y)"

    def alter(self):
        table = self.random.choice(self.schema.tables())
        column = self.random.choice(self.schema.columns(table))[0]
        other = self.random.choice(COLUMNS + ["g", "h"])
        form = self.random.random()
        if form < 0.25:
            return f"alter table {table} rename to {self.name('t', 6)}"
        if form < 0.5:
            return f"alter table {table} rename column {column} to {other}"
        if form < 0.8:
            kind = self.one_of("", "integer", "text")
            default = self.one_of("", f" default {self.random.randint(0, 9)}", " not null default 'x'")
            return f"alter table {table} add column {other} {kind}{default}"
        return f"alter table {table} drop column {column}"

    def drop(self):
        type = self.one_of("index", "index", "trigger", "trigger", "view", "table")
        names = self.schema.others[type] if type != "table" else self.schema.tables()
        name = self.random.choice(names) if names else self.name(type[0])
        return f"drop {type} {self.one_of('', 'if exists ')}{name}"

    def of_text(self):
        """What only a full-text index answers."""
        name = self.name("f", 2)
        word = self.one_of("a", "ab", "12", "x*", "a or b", "a not b", "zzz")
        return self.one_of(
            f"insert into {name}(p, q) values ({self.text()}, 'ab zzz 12'), ('a b', {self.text()})",
            f"select rowid, q from {name} where {name} match '{word}' order by rank, rowid limit 30",
            f"select snippet({name}, 0, '<', '>', '', 4) from {name} where p match '{word}' limit 9",
            f"insert into {name}({name}) values ('{self.one_of('optimize', 'integrity-check', 'rebuild')}')",
            f"delete from {name} where rowid % 3 = {self.random.randint(0, 2)}",
        )
