"""Random SQL, a statement at a time. Most of it is valid; what is not is an error that is compared too."""

KINDS = ["integer", "real", "text", "blob", "numeric", ""]
WORDS = ["", "a", "A", "ab ", "ab", "b", "it''s", "12", " 7x", "3.5", "Zürich", "zzz", "[1,2]", '{"k":[1,null]}']
BINARY = ["+", "-", "*", "/", "%", "||", "&", "|", "<<", "<", "<=", "=", "<>", "is", "is not", "and", "or", "->>"]
UNARY = ["-", "not ", "~"]
FUNCTIONS = """abs({}) length({}) upper({}) lower({}) hex({}) quote({}) typeof({}) trim({}) unicode({}) round({},1)
    sign({}) coalesce({},{}) ifnull({},{}) nullif({},{}) instr({},{}) substr({},2,3) substr({},-2) replace({},{},'-')
    printf('%d|%s|%.3f',{},{},{}) min({},{}) max({},{}) iif({},{},{}) json_array({},{}) json_type({}) json_valid({})
    json_extract({},'$.k[0]') likely({}) char({})""".split()
AGGREGATES = """count(*) count({}) count(distinct({})) sum({}) total({}) avg({}) min({}) max({}) group_concat({})
    sum({})filter(where({})) json_group_array({})""".split()
WINDOWS = """row_number() rank() dense_rank() ntile(3) lag({}) lead({},2) first_value({}) last_value({}) nth_value({},2)
    count(*) sum({}) group_concat({})""".split()
FRAMES = [
    "", "", "rows between 2 preceding and current row", "rows between unbounded preceding and 1 following exclude ties",
    "range between unbounded preceding and unbounded following", "groups between 1 preceding and 1 following",
]
JOINS = [", ", " join ", " left join ", " cross join ", " right join ", " full join ", " natural join "]
CONFLICT = ["", "", "", "", " or replace", " or ignore", " or fail", " or abort", " or rollback"]


class Statements:
    """Writes SQL for the tables and views that `schema` has."""

    def __init__(self, random, schema):
        self.random, self.schema = random, schema

    def chance(self, part):
        return self.random.random() < part

    def one_of(self, *choices):
        return self.random.choice(choices)

    def some_of(self, all, most):
        return self.random.sample(all, self.random.randint(1, max(1, min(most, len(all)))))

    # Values and expressions. A scope is a list of columns, each with its kind.

    def text(self):
        if self.chance(0.06):
            # On pages of its own.
            return f"printf('%.*c', {self.random.randint(300, 9000)}, '{self.one_of('x', 'y')}')"
        return f"'{self.random.choice(WORDS)}'"

    def literal(self, kind=None):
        kind = kind if kind is not None and self.chance(0.85) else self.random.choice(KINDS)
        if self.chance(0.06):
            return "null"
        if kind in ("integer", "numeric", ""):
            small = self.random.randint(-3, 30)
            # Behind the largest id of all SQLite chooses ids by chance.
            large = self.random.randint(0, 10**6) if self.chance(0.9) else 2**62 - abs(small)
            return str(small if self.chance(0.75) else large)
        if kind == "real":
            return self.one_of("0.5", "1e10", str(round(self.random.uniform(-99, 99), 2)))
        if kind == "blob":
            return self.one_of("x''", "x'00ff41'", f"zeroblob({self.random.randint(1, 3000)})")
        return self.text()

    def filled(self, form, scope, depth):
        return form.format(*[self.expression(scope, depth) for _ in range(form.count("{}"))])

    def expression(self, scope, depth=2):
        if depth <= 0 or self.chance(0.25):
            return self.random.choice(scope)[0] if scope and self.chance(0.8) else self.literal()
        sub = lambda: self.expression(scope, depth - 1)
        form = self.random.random()
        if form < 0.35:
            return f"({sub()} {self.random.choice(BINARY)} {sub()})"
        if form < 0.6:
            return self.filled(self.random.choice(FUNCTIONS), scope, depth - 1)
        if form < 0.65:
            return f"({self.random.choice(UNARY)}{sub()})"
        if form < 0.7:
            return f"cast({sub()} as {self.one_of('integer', 'real', 'text', 'blob', 'numeric')})"
        if form < 0.75:
            return f"case when {sub()} then {sub()} else {sub()} end"
        if form < 0.79:
            return f"({sub()} collate {self.one_of('nocase', 'rtrim', 'binary')})"
        if form < 0.84 and self.schema.names():
            return f"(select {self.aggregate(scope)} from {self.random.choice(self.schema.names())})"
        return self.predicate(scope, depth - 1)

    def predicate(self, scope, depth=1):
        sub = lambda: self.expression(scope, depth - 1)
        form = self.random.random()
        if form < 0.4:
            return f"({sub()} {self.one_of('<', '<=', '=', '<>', '>', 'is')} {sub()})"
        if form < 0.5:
            return f"({sub()} between {self.literal()} and {self.literal()})"
        if form < 0.6:
            return f"({sub()} in ({self.literal()}, {self.literal()}, {self.literal()}))"
        if form < 0.7:
            return f"({sub()} {self.one_of('like', 'glob', 'not like')} {self.one_of('%', '*', '_b%', '[a-m]*')!r})"
        if form < 0.8:
            return f"({sub()} {self.one_of('is null', 'notnull')})"
        if form < 0.88 and self.schema.names():
            table, columns = self.any_source()
            column = self.random.choice(columns)[0]
            if self.chance(0.5):
                return f"({sub()} {self.one_of('in', 'not in')} (select {column} from {table}))"
            return f"exists (select 1 from {table} y where y.{column} = {sub()})"
        return f"({sub()} {self.one_of('and', 'or')} {sub()})"

    def aggregate(self, scope):
        return self.filled(self.random.choice(AGGREGATES), scope, 1)

    def window(self, scope):
        function = self.filled(self.random.choice(WINDOWS), scope, 1)
        partition = f"partition by {self.expression(scope, 1)} " if self.chance(0.5) else ""
        return f"{function} over ({partition}order by {self.order(scope)} {self.random.choice(FRAMES)})"

    def order(self, scope):
        term = lambda: self.expression(scope, 1) + self.one_of("", " desc", " collate nocase", " desc nulls last")
        return ", ".join(term() for _ in range(self.random.randint(1, 2)))

    # Queries.

    def any_source(self):
        name = self.random.choice(self.schema.names())
        return name, self.schema.columns(name)

    def source(self, alias, depth):
        """What stands behind FROM, and its columns."""
        if not self.schema.names() or self.chance(0.04):
            return f"json_each('[3,1,\"x\",null,[7]]') {alias}", [(f"{alias}.value", ""), (f"{alias}.key", "")]
        if depth > 0 and self.chance(0.15):
            return f"({self.core(depth - 1, ['p', 'q'])}) {alias}", [(f"{alias}.p", ""), (f"{alias}.q", "")]
        name, columns = self.any_source()
        return f"{name} {alias}", [(f"{alias}.{column}", kind) for column, kind in columns]

    def core(self, depth, names):
        """A SELECT with these names of columns, without ORDER BY and LIMIT."""
        sources, scope = "", []
        for n in range(self.random.choices([1, 2, 3], [60, 32, 8])[0]):
            source, columns = self.source(f"x{n}", depth)
            join = self.random.choice(JOINS) if n else ""
            scope = scope + columns
            is_bound = join.startswith((" join", " left", " right", " full"))
            condition = f" on {self.predicate(scope)}" if is_bound and self.chance(0.9) else ""
            sources += join + source + condition
        where = f" where {self.predicate(scope, 2)}" if self.chance(0.6) else ""
        if self.chance(0.25):
            key = self.expression(scope, 1)
            cells = [key] + [self.aggregate(scope) for _ in names[1:]]
            group = f" group by {key}" if self.chance(0.8) else ""
            where += group + (f" having {self.aggregate(scope)} > 1" if group and self.chance(0.3) else "")
        else:
            cell = lambda: self.window(scope) if self.chance(0.12) else self.expression(scope)
            cells = [cell() for _ in names]
        distinct = self.one_of("", "", "", "distinct ")
        cells = ", ".join(f"{cell} as {name}" for cell, name in zip(cells, names))
        return f"select {distinct}{cells} from {sources}{where}"

    def select(self, depth=1, names=None):
        names = names or ["p", "q", "r", "s"][: self.random.randint(1, 4)]
        scope = [(name, "") for name in names]
        limit = f" limit {self.random.randint(1, 60)}" + self.one_of("", "", f" offset {self.random.randint(0, 9)}")
        order = f" order by {self.order(scope)}" if self.chance(0.5) else ""
        form = self.random.random()
        if form < 0.12:
            compound = self.one_of("union", "union all", "intersect", "except")
            order = f" order by {self.random.randint(1, len(names))}" if order else ""
            return f"{self.core(depth, names)} {compound} {self.core(depth, names)}{order}{limit}"
        if form < 0.2:
            cells = ", ".join(self.random.choice(scope)[0] for _ in names)
            inner = ", ".join(names)
            hint = self.one_of("", "materialized ", "not materialized ")
            return f"with w({inner}) as {hint}({self.core(depth, names)}) select {cells} from w{order}{limit}"
        if form < 0.26:
            most = self.random.randint(2, 40)
            cells = ", ".join(self.expression([("i", "integer"), ("j", "text")], 1) for _ in names)
            numbers = f"n(i, j) as (select 1, 'a' union all select i + 1, j || i from n where i < {most})"
            return f"with recursive {numbers} select {cells} from n{self.one_of('', ' order by 1 desc')}"
        return self.core(depth, names) + order + limit

    # Changes of rows.

    def values(self, columns):
        return "(" + ", ".join(self.literal(kind) for _, kind in columns) + ")"

    def returning(self, columns):
        if self.chance(0.85):
            return ""
        return " returning " + self.one_of("*", self.expression(columns, 1))

    def insert(self):
        table = self.random.choice(self.schema.tables())
        columns = self.schema.stored(table)
        chosen = columns if self.chance(0.8) else self.some_of(columns, len(columns))
        head = f"insert{self.random.choice(CONFLICT)} into {table}"
        names = ", ".join(column for column, _ in chosen)
        form = self.random.random()
        if form < 0.04:
            return f"{head} default values"
        if form < 0.2:
            cells = [column for column, _ in chosen]
            return f"{head}({names}) {self.core(1, cells)} limit {self.random.randint(1, 60)}"
        if form < 0.4:
            cells = ", ".join(self.filling(kind) for _, kind in chosen)
            most = self.random.choice([20, 60, 60, 250])
            numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {most})"
            return f"{numbers} {head}({names}) select {cells} from n"
        rows = ", ".join(self.values(chosen) for _ in range(self.random.choice([1, 1, 2, 5, 12])))
        if self.chance(0.25):
            return f"insert into {table}({names}) values {rows}{self.upsert(chosen)}"
        return f"{head}({names}) values {rows}{self.returning(chosen)}"

    def filling(self, kind):
        """A value for each of many rows, of which some are long."""
        if kind in ("text", "blob") and self.chance(0.5):
            return f"printf('%d%.*c', i, i * {self.random.randint(1, 40)}, 'z')"
        return self.one_of("i", f"i * {self.random.randint(2, 9)} % 17", f"i + {self.random.randint(0, 500)}", "hex(i)")

    def upsert(self, columns):
        target = f"({self.random.choice(columns)[0]})" if self.chance(0.5) else ""
        if self.chance(0.3):
            return f" on conflict{target} do nothing"
        column = self.random.choice(columns)[0]
        value = self.one_of(f"excluded.{column}", f"{column} || '+'", self.literal())
        where = f" where {self.predicate(columns)}" if self.chance(0.3) else ""
        return f" on conflict{target} do update set {column} = {value}{where}{self.returning(columns)}"

    def update(self):
        table = self.random.choice(self.schema.tables())
        columns = self.schema.stored(table)
        other, scope = "", columns
        if self.chance(0.12):
            name, found = self.any_source()
            other, scope = f" from {name} as z", [(f"z.{column}", kind) for column, kind in found]
        sets = ", ".join(f"{column} = {self.expression(scope, 2)}" for column, _ in self.some_of(columns, 2))
        where = f" where {self.predicate(scope, 2)}" if self.chance(0.9) else ""
        return f"update{self.random.choice(CONFLICT)} {table} set {sets}{other}{where}{self.returning(columns)}"

    def delete(self):
        table = self.random.choice(self.schema.tables())
        columns = self.schema.stored(table)
        if self.chance(0.03):
            return f"delete from {table}"
        if self.chance(0.6):
            column = self.random.choice(columns)[0]
            part = f"select {column} from {table} order by {self.order(columns)} limit {self.random.randint(1, 40)}"
            return f"delete from {table} where {column} in ({part})"
        return f"delete from {table} where {self.predicate(columns, 2)}{self.returning(columns)}"
