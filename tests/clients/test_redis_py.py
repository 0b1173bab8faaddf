"""redis-py against a running server.

The port comes from TEMBO_PORT. Run with pytest, or as a script:

    TEMBO_PORT=6379 python tests/clients/test_redis_py.py
"""

import os
import sys
import threading
import time

import redis

PORT = int(os.environ.get("TEMBO_PORT", "6379"))
PROTOCOLS = (2, 3)


def connect(protocol, **options):
    client = redis.Redis(port=PORT, protocol=protocol, decode_responses=True, **options)
    client.flushall()
    return client


def each_protocol(test):
    def run():
        for protocol in PROTOCOLS:
            test(connect(protocol))

    run.__name__ = test.__name__
    return run


@each_protocol
def test_strings(client):
    assert client.set("a", "1") is True
    assert client.get("a") == "1"
    assert client.get("nosuch") is None
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "3", get=True) == "1"
    assert client.getset("a", "4") == "3"
    assert client.append("a", "56") == 3
    assert client.strlen("a") == 3
    assert client.setrange("a", 1, "xx") == 3
    assert client.getrange("a", 0, -2) == "4x"
    assert client.mset({"x": "1", "y": "2"}) is True
    assert client.mget("x", "nosuch", "y") == ["1", None, "2"]
    assert client.msetnx({"x": "1", "z": "2"}) is False
    assert client.incr("n") == 1
    assert client.incrby("n", 41) == 42
    assert client.decr("n") == 41
    assert client.incrbyfloat("f", 0.5) == 0.5
    assert client.getdel("n") == "41"
    assert client.delete("x", "y", "nosuch") == 2
    assert client.exists("x") == 0


@each_protocol
def test_binary_and_large(client):
    raw = redis.Redis(port=PORT)
    value = bytes(range(256)) * 20_000
    assert raw.set(b"\x00\xff\r\n", value) is True
    assert raw.get(b"\x00\xff\r\n") == value


@each_protocol
def test_expiry(client):
    client.set("a", "1", px=1_000_000)
    client.set("b", "1", ex=1000)
    client.set("c", "1", exat=int(time.time()) + 1000)
    assert 900_000 < client.pttl("a") <= 1_000_000
    assert 900 < client.ttl("b") <= 1000
    assert client.ttl("nosuch") == -2
    assert client.persist("b") is True
    assert client.ttl("b") == -1
    assert client.expire("b", 1000, nx=True) == 1
    assert client.expire("b", 2000, lt=True) == 0
    assert time.time() + 900 < client.expiretime("c") <= time.time() + 1000
    assert client.getex("c", persist=True) == "1"
    client.set("a", "2", px=50)
    time.sleep(0.1)
    assert client.get("a") is None
    end = time.monotonic() + 60
    while client.dbsize() != 2:
        assert time.monotonic() < end, "what has expired is not removed"
        time.sleep(0.01)


@each_protocol
def test_pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"key:{number}", number)
        assert all(pipe.execute())
    with client.pipeline(transaction=True) as pipe:
        pipe.get("key:7").incr("key:7").get("key:7")
        assert pipe.execute() == ["7", 8, "8"]
    with client.pipeline(transaction=True) as pipe:
        pipe.set("s", "x").incr("s").get("s")
        replies = pipe.execute(raise_on_error=False)
        assert replies[0] is True and replies[2] == "x"
        assert isinstance(replies[1], redis.ResponseError)


@each_protocol
def test_watch(client):
    client.set("balance", 10)
    with client.pipeline() as pipe:
        pipe.watch("balance")
        value = int(pipe.get("balance"))
        client.set("balance", 99)
        pipe.multi()
        pipe.set("balance", value + 1)
        try:
            pipe.execute()
            raise AssertionError("the watch saw nothing")
        except redis.WatchError:
            pass
    assert client.get("balance") == "99"

    def increment(pipe):
        value = int(pipe.get("balance"))
        pipe.multi()
        pipe.set("balance", value + 1)

    def work():
        own = redis.Redis(port=PORT)
        for _ in range(50):
            own.transaction(increment, "balance")

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("balance") == "299"


@each_protocol
def test_scan(client):
    names = {f"user:{number}" for number in range(500)}
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, 1)
        pipe.set("other", 1)
        pipe.execute()
    assert set(client.scan_iter("user:*")) == names
    assert set(client.scan_iter(count=7)) == names | {"other"}
    assert set(client.scan_iter(_type="string", count=1000)) == names | {"other"}
    assert sorted(client.keys("user:1?")) == [f"user:1{digit}" for digit in range(10)]
    assert client.randomkey() in names | {"other"}


@each_protocol
def test_keys(client):
    client.set("a", "1", ex=1000)
    assert client.type("a") == "string"
    assert client.rename("a", "b") is True
    assert client.copy("b", "c") is True
    assert client.ttl("c") > 900
    assert client.move("c", 5) is True
    assert redis.Redis(port=PORT, db=5).get("c") == b"1"
    assert client.touch("b") == 1
    assert client.unlink("b") == 1
    assert client.dbsize() == 0


@each_protocol
def test_server(client):
    assert client.ping() is True
    assert client.echo("x") == "x"
    info = client.info()
    assert info["loading"] == 0 and info["role"] == "master"
    assert "tembo_version_visible" in client.info("persistence")
    assert client.config_get("maxclients")["maxclients"]
    assert client.config_set("timeout", 0) is True
    assert client.client_setname("me") is True
    assert client.client_getname() == "me"
    assert any(row["name"] == "me" for row in client.client_list())
    assert client.client_id() > 0
    assert client.command_count() > 50
    assert "get" in client.command()
    assert len(client.time()) == 2
    assert client.save() is True
    assert client.bgsave()
    assert client.lastsave()
    assert client.flushdb() is True


@each_protocol
def test_lock(client):
    lock, other = client.lock("lock", timeout=100), client.lock("lock", timeout=100)
    assert lock.acquire(blocking=False) is True
    assert other.acquire(blocking=False) is False
    assert lock.locked() and lock.owned() and not other.owned()
    assert lock.extend(100) is True
    assert client.pttl("lock") > 100_000
    assert lock.reacquire() is True
    assert client.pttl("lock") <= 100_000
    lock.release()
    assert client.exists("lock") == 0
    assert other.acquire(blocking=False) is True
    client.set("lock", "another's")
    try:
        other.release()
        raise AssertionError("released what another owns")
    except redis.exceptions.LockNotOwnedError:
        assert client.get("lock") == "another's"


@each_protocol
def test_lock_expires(client):
    short, other = client.lock("lock", timeout=0.3), client.lock("lock", timeout=100)
    since = time.monotonic()
    assert short.acquire(blocking=False) is True
    assert other.acquire(blocking_timeout=0.05) is False
    assert other.acquire(blocking_timeout=10) is True
    assert time.monotonic() - since >= 0.3
    assert other.owned() and not short.owned()
    for call in (short.release, lambda: short.extend(1), short.reacquire):
        # A lock forgets its token with a release.
        token = short.local.token
        try:
            call()
            raise AssertionError("changed what another owns")
        except redis.exceptions.LockNotOwnedError:
            short.local.token = token
    assert client.get("lock") == other.local.token.decode()
    other.release()


@each_protocol
def test_lock_under_contention(client):
    inside = []

    def work():
        for _ in range(20):
            with client.lock("lock", timeout=100, sleep=0.001):
                count = int(client.get("count") or 0)
                inside.append(count)
                client.set("count", count + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == list(range(80))
    assert client.exists("lock") == 0


def test_errors():
    client = connect(2)
    for call in (
        lambda: client.execute_command("NOSUCH"),
        lambda: client.execute_command("GET"),
        lambda: client.execute_command("SET", "a", "b", "BOGUS"),
        lambda: client.execute_command("SELECT", 99),
    ):
        try:
            call()
            raise AssertionError("no error")
        except redis.ResponseError:
            pass
    assert client.ping()


def main():
    tests = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
        print("ok", test.__name__)
    print(f"redis-py {redis.__version__}: {len(tests)} tests")


if __name__ == "__main__":
    sys.exit(main())
