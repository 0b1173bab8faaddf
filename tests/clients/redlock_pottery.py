"""Pottery's Redlock over several running servers, and redis-py's Lock over the first, in parts that a script runs while it kills servers.

    redlock_pottery.py PORTS contend FOLDER SECONDS    takes and releases one lock in turns; fails if two are inside at once
    redlock_pottery.py PORTS hold TTL_MS               takes a lock and ends; prints the times between which it was taken
    redlock_pottery.py PORTS wait TTL_MS SINCE UNTIL   another client gets the lock when it has expired, and not before
    redlock_pottery.py PORTS lock                      redis-py's Lock: taken; prints its token
    redlock_pottery.py PORTS locked TOKEN              owned by that token only; made longer and released

PORTS are separated by commas; the lock is the one that redlock.js takes.
"""

import logging
import os
import sys
import threading
import time

import pottery
import redis

CLIENTS = 3
CONTEND_TTL_S = 2
# Behind the end of a lock: one takes so long to be found free at most.
SLACK_S = 5

PORTS = [int(port) for port in sys.argv[1].split(",")]
# A server that is gone is said at each of its answers.
logging.disable(logging.CRITICAL)


def redlock(seconds):
    # While a server is gone, what is asked of it fails at once: the other servers decide.
    masters = {redis.Redis(port=port, socket_timeout=1, retry=None) for port in PORTS}
    return pottery.Redlock(key="shared", masters=masters, auto_release_time=seconds)


def section(lock, inside):
    since = time.monotonic()
    if not lock.acquire(blocking=False):
        time.sleep(0.005)
        return 0
    # Another one that is inside has made the folder.
    os.mkdir(inside)
    time.sleep(0.002)
    os.rmdir(inside)
    if time.monotonic() > since + CONTEND_TTL_S * 0.95:
        raise RuntimeError("the machine is too slow: the lock has expired in the section")
    try:
        lock.release()
    except pottery.ReleaseUnlockedLock:
        # A majority is missing: the lock then ends with its time.
        pass
    time.sleep(0.005)
    return 1


def contend(folder, seconds):
    inside = os.path.join(folder, "inside")
    end = time.monotonic() + float(seconds)
    counts = [0] * CLIENTS
    errors = []

    def work(number):
        try:
            lock = redlock(CONTEND_TTL_S)
            while time.monotonic() < end:
                counts[number] += section(lock, inside)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert all(counts), f"a client has never had the lock: {counts}"
    print(f"Redlock (pottery): {sum(counts)} times in the section, one at a time")


def hold(ttl):
    lock = redlock(int(ttl) / 1000)
    since = time.time()
    assert lock.acquire(blocking=False)
    print(int(since * 1000), int(time.time() * 1000) + 1)


def wait(ttl, since, until):
    lock = redlock(1)
    first = int(since) / 1000 + int(ttl) / 1000
    last = int(until) / 1000 + int(ttl) / 1000 + SLACK_S
    refused = 0
    while not lock.acquire(blocking=False):
        refused += 1
        assert time.time() < last, "the lock does not end"
        time.sleep(0.01)
    # The servers count from when they took it, which was not before it was asked for.
    now = time.time()
    assert refused, "the lock was free at once"
    assert now >= first, "the lock was had twice"
    lock.release()
    print(f"Redlock (pottery): refused {refused} times, then had {(now - first) * 1000:.0f} ms after the time that was asked for")


def lock():
    one = redis.Redis(port=PORTS[0]).lock("one", timeout=100)
    assert one.acquire(blocking=False)
    print(one.local.token.decode())


def locked(token):
    client = redis.Redis(port=PORTS[0])
    one, other = client.lock("one", timeout=100), client.lock("one", timeout=0.3)
    one.local.token = token.encode()
    assert one.owned() and not other.owned()
    assert not other.acquire(blocking=False)
    assert client.pttl("one") <= 100_000
    assert one.extend(50) and client.pttl("one") > 100_000
    one.release()
    assert other.acquire(blocking=False)
    print("redis-py's Lock: kept by its owner's token, made longer, released")


if __name__ == "__main__":
    {"contend": contend, "hold": hold, "wait": wait, "lock": lock, "locked": locked}[sys.argv[2]](*sys.argv[3:])
