"""A mix like TPC-C's: its tables and three of its five transactions, new order, payment and order status, in the ratio 45 to
43 to 4. Delivery and stock level are left out, and so are think times, the rows that are rolled back on purpose, and most columns:
the figures compare with each other, and with no published one.
"""

import time

DISTRICTS = 10
LINES = 10

SCHEMA = """
CREATE TABLE warehouse(w INTEGER PRIMARY KEY, name TEXT, ytd INTEGER NOT NULL);
CREATE TABLE district(w INTEGER, d INTEGER, next_o INTEGER NOT NULL, ytd INTEGER NOT NULL, PRIMARY KEY (w, d));
CREATE TABLE customer(w INTEGER, d INTEGER, c INTEGER, balance INTEGER NOT NULL, payments INTEGER NOT NULL, data TEXT,
    PRIMARY KEY (w, d, c));
CREATE TABLE history(w INTEGER, d INTEGER, c INTEGER, amount INTEGER, data TEXT);
CREATE TABLE item(i INTEGER PRIMARY KEY, price INTEGER NOT NULL, name TEXT);
CREATE TABLE stock(w INTEGER, i INTEGER, quantity INTEGER NOT NULL, ytd INTEGER NOT NULL, data TEXT, PRIMARY KEY (w, i));
CREATE TABLE orders(w INTEGER, d INTEGER, o INTEGER, c INTEGER, lines INTEGER NOT NULL, PRIMARY KEY (w, d, o));
CREATE INDEX orders_of_customer ON orders(w, d, c, o);
CREATE TABLE new_order(w INTEGER, d INTEGER, o INTEGER, PRIMARY KEY (w, d, o));
CREATE TABLE order_line(w INTEGER, d INTEGER, o INTEGER, number INTEGER, i INTEGER, quantity INTEGER, amount INTEGER,
    info TEXT, PRIMARY KEY (w, d, o, number));
"""


def fill(connection, scale):
    """`scale`: warehouses, customers a district, items."""
    warehouses, customers, items = scale
    connection.executescript(SCHEMA)
    connection.execute("BEGIN")
    put = connection.executemany
    put("INSERT INTO item VALUES (?, ?, ?)", ((i, 100 + i % 900, f"item {i:20}") for i in range(items)))
    for w in range(warehouses):
        connection.execute("INSERT INTO warehouse VALUES (?, ?, 0)", (w, f"warehouse {w}"))
        put("INSERT INTO stock VALUES (?, ?, 50, 0, ?)", ((w, i, "s" * 250) for i in range(items)))
        for d in range(DISTRICTS):
            connection.execute("INSERT INTO district VALUES (?, ?, 0, 0)", (w, d))
            put("INSERT INTO customer VALUES (?, ?, ?, 0, 0, ?)", ((w, d, c, "c" * 400) for c in range(customers)))
    connection.execute("COMMIT")


def new_order(connection, random, scale):
    warehouses, customers, items = scale
    w, d, c = random.randrange(warehouses), random.randrange(DISTRICTS), random.randrange(customers)
    do = connection.execute
    do("BEGIN IMMEDIATE")
    o = do("SELECT next_o FROM district WHERE w = ? AND d = ?", (w, d)).fetchone()[0]
    do("UPDATE district SET next_o = next_o + 1 WHERE w = ? AND d = ?", (w, d))
    count = random.randint(5, LINES + 5)
    do("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", (w, d, o, c, count))
    do("INSERT INTO new_order VALUES (?, ?, ?)", (w, d, o))
    for number in range(count):
        i, quantity = random.randrange(items), random.randint(1, 10)
        price = do("SELECT price FROM item WHERE i = ?", (i,)).fetchone()[0]
        left = do("SELECT quantity FROM stock WHERE w = ? AND i = ?", (w, i)).fetchone()[0]
        left = left - quantity if left >= quantity + 10 else left - quantity + 91
        do("UPDATE stock SET quantity = ?, ytd = ytd + ? WHERE w = ? AND i = ?", (left, quantity, w, i))
        line = (w, d, o, number, i, quantity, price * quantity, "i" * 24)
        do("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?, ?)", line)
    do("COMMIT")


def payment(connection, random, scale):
    warehouses, customers, _ = scale
    w, d, c = random.randrange(warehouses), random.randrange(DISTRICTS), random.randrange(customers)
    amount = random.randint(1, 5000)
    do = connection.execute
    do("BEGIN IMMEDIATE")
    do("UPDATE warehouse SET ytd = ytd + ? WHERE w = ?", (amount, w))
    do("UPDATE district SET ytd = ytd + ? WHERE w = ? AND d = ?", (amount, w, d))
    do("UPDATE customer SET balance = balance - ?, payments = payments + 1 WHERE w = ? AND d = ? AND c = ?",
       (amount, w, d, c))
    do("INSERT INTO history VALUES (?, ?, ?, ?, ?)", (w, d, c, amount, "h" * 24))
    do("COMMIT")


def order_status(connection, random, scale):
    warehouses, customers, _ = scale
    of = (random.randrange(warehouses), random.randrange(DISTRICTS), random.randrange(customers))
    do = connection.execute
    do("BEGIN")
    do("SELECT balance FROM customer WHERE w = ? AND d = ? AND c = ?", of).fetchone()
    last = do("SELECT o FROM orders WHERE w = ? AND d = ? AND c = ? ORDER BY o DESC LIMIT 1", of).fetchone()
    if last:
        do("SELECT i, quantity, amount FROM order_line WHERE w = ? AND d = ? AND o = ?", (*of[:2], last[0])).fetchall()
    do("COMMIT")


def run(connection, random, transactions, scale):
    """Runs the mix; the nanoseconds of each transaction."""
    times = []
    for _ in range(transactions):
        draw = random.randrange(92)
        chosen = new_order if draw < 45 else payment if draw < 88 else order_status
        start = time.perf_counter_ns()
        chosen(connection, random, scale)
        times.append(time.perf_counter_ns() - start)
    return times


def is_consistent(connection):
    """Conditions of TPC-C's clause 3.3.2, as far as there are tables for them."""
    wrong = [
        "SELECT count(*) FROM warehouse WHERE ytd != (SELECT sum(ytd) FROM district WHERE district.w = warehouse.w)",
        "SELECT count(*) FROM district WHERE next_o != (SELECT count(*) FROM orders WHERE w = district.w AND d = district.d)",
        "SELECT (SELECT sum(lines) FROM orders) != (SELECT count(*) FROM order_line)",
        "SELECT (SELECT coalesce(sum(ytd), 0) FROM warehouse) != (SELECT coalesce(sum(amount), 0) FROM history)",
        "SELECT (SELECT sum(-balance) FROM customer) != (SELECT sum(ytd) FROM warehouse)",
    ]
    return not any(connection.execute(sql).fetchone()[0] for sql in wrong)
