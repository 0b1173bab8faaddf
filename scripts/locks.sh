#!/bin/sh
# Locks of clients against the binary given: Redlock in JavaScript (npm) and in Python (pottery) over three servers, and redis-py's Lock.
# Both take one lock in turns while each server in turn is killed (SIGKILL) and starts again: there is one in the section at a time.
# Then two of the three servers that have given a lock are killed and start again in its time: they have kept it, so that no other
# client gets it before its end. Packages come by their names from their registries; what cannot be installed is skipped, and says so.
set -eu
cd "$(dirname "$0")/.."
TEMBO=$(realpath "${1:-target/release/tembo}")
DOMAIN=${TEMBO_DOMAIN:-logged}
# How long both contend; each server is gone for a part of it.
SECONDS_OF_CONTENTION=15
TTL_MS=6000

mkdir -p target
folder=$(mktemp -d target/locks.XXXXXX)
folder=$(realpath "$folder")
server1= server2= server3=
port1=0 port2=0 port3=0
contenders=
# On every way out: what is still there is ours.
trap 'kill -9 $server1 $server2 $server3 $contenders 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM

# serve NUMBER: starts a server, at its port from its second start on.
serve() {
    eval "port=\$port$1"
    : >"$folder/ready$1"
    "$TEMBO" serve --pool "$folder/$1.pool" --domain "$DOMAIN" --port "$port" >"$folder/ready$1" &
    eval "server$1=$!"
    tries=0
    until grep -q 'ready at' "$folder/ready$1"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 1200 ]; then
            echo "the server is not ready" >&2
            exit 1
        fi
        sleep 0.05
    done
    eval "port$1=$(sed -n 's/.*ready at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/ready$1")"
}

# crash NUMBER: ends a server at once.
crash() {
    eval "process=\$server$1"
    kill -9 "$process"
    wait "$process" 2>/dev/null || true
}

# One process each, so that it can be killed.
cat >"$folder/npm" <<RUN
#!/bin/sh
cd "$folder/node" && exec node redlock.js "\$(cat "$folder/ports")" "\$@"
RUN
cat >"$folder/pottery" <<RUN
#!/bin/sh
exec "$folder/venv/bin/python" "$PWD/tests/clients/redlock_pottery.py" "\$(cat "$folder/ports")" "\$@"
RUN
chmod +x "$folder/npm" "$folder/pottery"

# contend CONTENDER...: all take the lock in turns while each server is killed once.
contend() {
    contenders=
    for contender in "$@"; do
        "$folder/$contender" contend "$folder" "$SECONDS_OF_CONTENTION" &
        contenders="$contenders $!"
    done
    for number in 1 2 3; do
        sleep 2
        crash "$number"
        sleep 1
        serve "$number"
    done
    for contender in $contenders; do
        wait "$contender"
    done
    contenders=
}

# Two servers are a majority: with what they had in memory only, a second client would get the lock.
crash_majority() {
    crash 2
    crash 3
    serve 2
    serve 3
}

mkdir "$folder/node"
npm= pottery=
if command -v npm >/dev/null && (cd "$folder/node" && npm install --silent --no-audit --no-fund redlock@4 ioredis@5 >/dev/null 2>&1); then
    cp tests/clients/redlock.js "$folder/node/"
    npm=npm
else
    echo "SKIPPED: Redlock in JavaScript: npm is missing, or its registry is not reached"
fi
if python3 -m venv "$folder/venv" 2>/dev/null && "$folder/venv/bin/pip" install --quiet 'pottery==3.*' 'redis==7.*' >/dev/null 2>&1; then
    pottery=pottery
else
    echo "SKIPPED: Redlock and Lock in Python: pip is missing, or its registry is not reached"
fi

for number in 1 2 3; do
    serve "$number"
done
echo "$port1,$port2,$port3" >"$folder/ports"
if [ -n "$npm$pottery" ]; then
    echo "==> Redlock, each of three servers killed once"
    # shellcheck disable=SC2086 # none, one or two words
    contend $npm $pottery
fi
if [ -n "$npm" ]; then
    echo "==> Redlock (npm), two of three servers killed in the time of a lock"
    held=$("$folder/npm" hold "$TTL_MS")
    crash_majority
    held=$("$folder/npm" extend "${held%% *}" "$TTL_MS")
    crash_majority
    # shellcheck disable=SC2086 # two words
    "$folder/npm" wait "$TTL_MS" ${held#* }
fi
if [ -n "$pottery" ]; then
    echo "==> Redlock (pottery), two of three servers killed in the time of a lock"
    held=$("$folder/pottery" hold "$TTL_MS")
    crash_majority
    # shellcheck disable=SC2086 # two words
    "$folder/pottery" wait "$TTL_MS" $held
    echo "==> redis-py's Lock, its server killed in the time of a lock"
    token=$("$folder/pottery" lock)
    crash 1
    serve 1
    "$folder/pottery" locked "$token"
fi
for number in 1 2 3; do
    eval "process=\$server$number"
    kill "$process"
    wait "$process"
    [ "$DOMAIN" = volatile ] || "$TEMBO" check "$folder/$number.pool" >/dev/null
done
echo "==> locks: ok"
