"""Checks of servers behind twemproxy, which shares keys out among them; a script starts and kills them.

    twemproxy.py fill PROXY COUNT               sets keys, in pipelines
    twemproxy.py spread COUNT SERVER...         each key is on one server, each server has its share
    twemproxy.py commands PROXY                 commands of one key and of several, and scripts
    twemproxy.py items PROXY COUNT SERVER...    the same with memcached's protocol
    twemproxy.py without PROXY COUNT            one server is down: its keys are errors, the others are there
    twemproxy.py all PROXY COUNT                all keys are there
    twemproxy.py moved PROXY COUNT              a server was added: most keys are where they were

All are ports at loopback. redis-py is not used: it greets by commands that the proxy does not know.
"""

import socket
import sys
import time

PATIENCE_S = 60
TOGETHER = 500


class Failed(Exception):
    """An error reply."""


class Client:
    def __init__(self, port):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
                break
            except ConnectionRefusedError:
                # A proxy that was started just now.
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        self.file = self.socket.makefile("rb")

    def send(self, *commands):
        parts = []
        for words in commands:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            parts.append(b"*%d\r\n" % len(words))
            parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))

    def reply(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return Failed(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        assert kind == b"*", line
        return [self.reply() for _ in range(int(rest))]

    def call(self, *words):
        self.send(words)
        return self.reply()


def key(number):
    return b"key:%d" % number


def value(number):
    return b"value of %d " % number * (1 + number % 20)


def together(count):
    for first in range(0, count, TOGETHER):
        yield range(first, min(first + TOGETHER, count))


def gets(proxy, count):
    """What each key has, in one pipeline for some hundred of them."""
    client = Client(proxy)
    for numbers in together(count):
        client.send(*[("GET", key(number)) for number in numbers])
        for number in numbers:
            yield number, client.reply()


def fill(proxy, count):
    client = Client(proxy)
    for numbers in together(count):
        client.send(*[("SET", key(number), value(number)) for number in numbers])
        for number in numbers:
            assert client.reply() == b"OK", number
    print(f"{count} keys are set")


def spread(count, *servers):
    sizes = [Client(server).call("DBSIZE") for server in servers]
    print(f"keys of each server: {sizes}")
    # Those of the other commands are removed again.
    assert sum(sizes) == count, sizes
    assert min(sizes) > count // len(servers) // 3, sizes


def commands(proxy):
    client = Client(proxy)
    names = [b"own:%d" % number for number in range(100)]
    pairs = [word for number, name in enumerate(names) for word in (name, number)]
    assert client.call("MSET", *pairs) == b"OK"
    assert client.call("MGET", *names, "none") == [b"%d" % n for n in range(100)] + [None]
    client.send(*[("INCR", name) for name in names])
    assert [client.reply() for _ in names] == list(range(1, 101))
    assert client.call("EXISTS", names[0]) == 1
    for name in names[:10]:
        client.call("DEL", name)
        assert client.call("RPUSH", name, "a", "b", "c") == 3
        assert client.call("LRANGE", name, 0, -1) == [b"a", b"b", b"c"]
        client.call("DEL", name)
        assert client.call("HSET", name, "field", "1") == 1
        assert client.call("HGETALL", name) == [b"field", b"1"]
        client.call("DEL", name)
        assert client.call("ZADD", name, 2, "b", 1, "a") == 2
        assert client.call("ZRANGE", name, 0, -1, "WITHSCORES") == [b"a", b"1", b"b", b"2"]
        assert client.call("EXPIRE", name, 100) == 1
        assert 0 < client.call("TTL", name) <= 100
    script = "return {KEYS[1], redis.call('GET', KEYS[1])}"
    assert client.call("EVAL", script, 1, names[50]) == [names[50], b"51"]
    # What is too large for a buffer of the proxy.
    large = bytes(range(256)) * 4096
    assert client.call("SET", names[0], large) == b"OK"
    assert client.call("GET", names[0]) == large
    assert client.call("DEL", *names) == len(names)
    print("commands: ok")


def items(proxy, count, *servers):
    client = Client(proxy)
    for numbers in together(count):
        lines = [b"set item%d 0 0 %d\r\n%s\r\n" % (n, len(value(n)), value(n)) for n in numbers]
        client.socket.sendall(b"".join(lines))
        for _ in numbers:
            assert client.file.readline() == b"STORED\r\n"
    found = {}
    for numbers in together(count):
        client.socket.sendall(b"get %s\r\n" % b" ".join(b"item%d" % number for number in numbers))
        while (line := client.file.readline()) != b"END\r\n":
            _, name, _, size = line.split()
            found[name] = client.file.read(int(size) + 2)[:-2]
    assert found == {b"item%d" % number: value(number) for number in range(count)}
    sizes = []
    for server in servers:
        one = Client(server)
        one.socket.sendall(b"stats\r\n")
        lines = iter(one.file.readline, b"END\r\n")
        sizes += [int(line.split()[2]) for line in lines if line.split()[1] == b"curr_items"]
    print(f"items of each server: {sizes}")
    assert sum(sizes) == count and min(sizes) > count // len(servers) // 3, sizes


def without(proxy, count):
    down = 0
    for number, found in gets(proxy, count):
        if isinstance(found, Failed):
            down += 1
        else:
            assert found == value(number), number
    print(f"without one server: {down} of {count} keys are errors")
    assert count // 9 < down < count * 2 // 3, down


def everything(proxy, count):
    # The proxy may take a moment until it connects again.
    end = time.monotonic() + PATIENCE_S
    while any(isinstance(found, Failed) for _, found in gets(proxy, count)):
        assert time.monotonic() < end, "the proxy finds a server no more"
        time.sleep(0.2)
    for number, found in gets(proxy, count):
        assert found == value(number), number
    print(f"all {count} keys are there")


def moved(proxy, count):
    gone = 0
    for number, found in gets(proxy, count):
        assert found in (None, value(number)), number
        gone += found is None
    print(f"with a server more, {gone} of {count} keys belong to another one")
    assert count // 12 < gone < count // 2, gone


CHECKS = {
    "fill": fill,
    "spread": spread,
    "commands": commands,
    "items": items,
    "without": without,
    "all": everything,
    "moved": moved,
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](*[int(word) for word in sys.argv[2:]])
