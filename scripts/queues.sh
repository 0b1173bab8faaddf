#!/bin/sh
# Job queues and clients in other languages against the binary given: BullMQ with ioredis, Sidekiq, Celery, go-redis. In the
# middle of the jobs a worker is killed, then the server (SIGKILL), which starts again; no job may be lost but those that a queue
# itself gives up with a kill, as its part says. Packages come by their names from their registries; what cannot be installed is
# skipped, and says so.
set -eu
cd "$(dirname "$0")/.."
TEMBO=$(realpath "${1:-target/release/tembo}")
JOBS=${TEMBO_JOBS:-300}

mkdir -p target
folder=$(mktemp -d target/queues.XXXXXX)
folder=$(realpath "$folder")
server=
workers=
# On every way out: what is still there is ours.
trap 'kill -9 $server $workers 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM

serve() {
    : >"$folder/ready"
    "$TEMBO" serve --pool "$folder/queues.pool" --domain logged --port "$1" >"$folder/ready" &
    server=$!
    tries=0
    until grep -q 'ready at' "$folder/ready"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 1200 ]; then
            echo "the server is not ready" >&2
            exit 1
        fi
        sleep 0.1
    done
    port=$(sed -n 's/.*ready at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/ready")
    echo "$port" >"$folder/port"
}

ask() {
    python3 - "$port" "$@" <<'PYTHON'
import socket, sys
words = [word.encode() for word in sys.argv[2:]]
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    one.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
    print(one.makefile().readline().strip().lstrip(":+"))
PYTHON
}

# Waits until so many jobs are done.
done_by_now() {
    tries=0
    until [ "$(ask SCARD done)" -ge "$1" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then
            echo "only $(ask SCARD done) jobs are done, not $1" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# Runs the jobs: `$1 work` is killed, the server is killed, and `$1 finish` finds none missing.
crash() {
    "$1" add "$JOBS"
    "$1" work >/dev/null 2>&1 &
    workers=$!
    done_by_now $((JOBS / 6))
    kill -9 "$workers"
    wait "$workers" 2>/dev/null || true
    "$1" work >/dev/null 2>&1 &
    workers=$!
    done_by_now $((JOBS / 3))
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    serve "$port"
    done_by_now $((JOBS / 2))
    kill -9 "$workers"
    wait "$workers" 2>/dev/null || true
    workers=
    "$1" finish "$JOBS"
}

# The server is killed while `$1 push` adds jobs; what was acknowledged is there afterwards.
pushes() {
    : >"$folder/pushed"
    "$1" push "$folder/pushed" &
    workers=$!
    tries=0
    until [ "$(wc -l <"$folder/pushed")" -ge "$JOBS" ] || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    wait "$workers"
    workers=
    serve "$port"
    "$1" pushed "$folder/pushed"
}

stop() {
    kill "$server"
    wait "$server"
    "$TEMBO" check "$folder/queues.pool" >/dev/null
    rm -f "$folder"/queues.pool*
}

# One process each, so that it can be killed.
cat >"$folder/bullmq" <<RUN
#!/bin/sh
cd "$folder/node" && exec node queue.js "\$(cat "$folder/port")" "\$@"
RUN
cat >"$folder/celery" <<RUN
#!/bin/sh
TEMBO_PORT=\$(cat "$folder/port") exec "$folder/venv/bin/python" "$PWD/tests/clients/queue_celery.py" "\$@"
RUN
cat >"$folder/sidekiq" <<RUN
#!/bin/sh
REDIS_URL=redis://127.0.0.1:\$(cat "$folder/port")/0 exec ruby "$PWD/tests/clients/queue_sidekiq.rb" "\$@"
RUN
chmod +x "$folder/bullmq" "$folder/celery" "$folder/sidekiq"

echo "==> BullMQ, ioredis"
mkdir "$folder/node"
if command -v npm >/dev/null && (cd "$folder/node" && npm install --silent --no-audit --no-fund bullmq@5 ioredis@5 >/dev/null 2>&1); then
    cp tests/clients/queue.js "$folder/node/"
    serve 0
    "$folder/bullmq" basics
    crash "$folder/bullmq"
    stop
else
    echo "SKIPPED: npm is missing, or its registry is not reached"
fi

echo "==> Sidekiq"
if ! command -v sidekiq >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ruby-sidekiq </dev/null >/dev/null 2>&1 || true
fi
if command -v sidekiq >/dev/null; then
    serve 0
    crash "$folder/sidekiq"
    ask FLUSHALL >/dev/null
    pushes "$folder/sidekiq"
    stop
else
    echo "SKIPPED: Sidekiq is missing (apt install ruby-sidekiq)"
fi

echo "==> Celery"
if python3 -m venv "$folder/venv" 2>/dev/null && "$folder/venv/bin/pip" install --quiet 'celery[redis]==5.*' >/dev/null 2>&1; then
    serve 0
    crash "$folder/celery"
    stop
else
    echo "SKIPPED: pip is missing, or its registry is not reached"
fi

echo "==> go-redis"
GO=$(command -v go || echo /usr/local/go/bin/go)
mkdir "$folder/go"
cp tests/clients/queue.go "$folder/go/main.go"
if [ -x "$GO" ] && (cd "$folder/go" && "$GO" mod init queue >/dev/null 2>&1 && "$GO" get github.com/redis/go-redis/v9 >/dev/null 2>&1); then
    serve 0
    (cd "$folder/go" && "$GO" run . "$port")
    stop
else
    echo "SKIPPED: go is missing, or its proxy is not reached"
fi
echo "==> queues: ok"
