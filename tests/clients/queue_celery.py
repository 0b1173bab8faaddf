"""A job queue of Celery against a running server, in parts that a script runs one after another and kills.

    queue_celery.py add COUNT       adds jobs, numbered from 0
    queue_celery.py work            works on jobs until it is killed; each leaves its number in a set
    queue_celery.py finish COUNT    works on what is left; ends when all are done, fails if more are missing than were killed

Celery takes a job off its list with one command, and notes it as not acknowledged with the next. A worker or a server that is killed
between the two loses that job, as with Redis itself: one for each kill at most.

The port comes from TEMBO_PORT.
"""

import os
import sys
import threading
import time

import celery
import redis

PORT = int(os.environ["TEMBO_PORT"])
PATIENCE_S = 120
# Two workers and the server are killed.
KILLS = 3
# So long nothing is left to be done, or to be given back, before a job counts as lost.
IDLE_S = 10

app = celery.Celery("queue", broker=f"redis://127.0.0.1:{PORT}/0")
app.conf.update(
    # A job is acknowledged when it is done, and given to another worker if that does not happen.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    # A worker that is killed while it gives jobs back holds a lock so long: five minutes unless it is set.
    broker_transport_options={"visibility_timeout": 2, "unacked_restore_limit": 10000, "unacked_mutex_expire": 2},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_hijack_root_logger=False,
    # What this prints is for the one that runs it, not for a log.
    worker_redirect_stdouts=False,
)
store = redis.Redis(port=PORT)


@app.task(name="job")
def job(number):
    time.sleep(0.003)
    store.sadd("done", number)


def work():
    app.worker_main(["worker", "--pool", "solo", "--loglevel", "CRITICAL", "--without-gossip", "--without-mingle", "--without-heartbeat"])


def finish(count):
    end = time.monotonic() + PATIENCE_S
    now = idle_since = time.monotonic()
    threading.Thread(target=work, daemon=True).start()
    while (done := store.scard("done")) < count:
        now = time.monotonic()
        if store.llen("celery") or store.hlen("unacked"):
            idle_since = now
        if now > end or now - idle_since > IDLE_S:
            break
        time.sleep(0.05)
    lost = count - done
    print(f"{done} of {count} jobs are done" + (f", {lost} were lost with a kill" if lost else ""), flush=True)
    is_settled = not lost or now - idle_since > IDLE_S
    os._exit(0 if is_settled and lost <= KILLS else 1)


if __name__ == "__main__":
    if sys.argv[1] == "add":
        for each in range(int(sys.argv[2])):
            job.delay(each)
    elif sys.argv[1] == "work":
        work()
    else:
        finish(int(sys.argv[2]))
