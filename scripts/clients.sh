#!/bin/sh
# Real clients against the binary given: redis-py, redis-cli and redis-benchmark against one server,
# then a million keys, a SIGKILL and a restart.
set -eu
cd "$(dirname "$0")/.."
TEMBO=$(realpath "${1:-target/release/tembo}")
export TEMBO
PATH="$PWD/target/bin:$PATH"

folder=$(mktemp -d target/clients.XXXXXX)
"$TEMBO" serve --pool "$folder/clients.pool" --domain logged --port 0 --memcached-port 0 --metrics-port 0 >"$folder/ready" &
server=$!
exporter=
# On every way out: what is still there is ours.
trap 'kill -9 $server $exporter 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM

tries=0
until grep -q 'ready at' "$folder/ready"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 1200 ]; then
        echo "the server is not ready" >&2
        exit 1
    fi
    sleep 0.1
done
TEMBO_PORT=$(sed -n 's/.*ready at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/ready")
export TEMBO_PORT
TEMBO_METRICS=$(sed -n 's/.*metrics at \([^ ]*\) .*/\1/p' "$folder/ready")
TEMBO_MEMCACHED_PORT=$(sed -n 's/.*memcached at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/ready")

echo "==> redis-py"
target/venv/bin/python tests/clients/test_redis_py.py
echo "==> redis-cli, redis-benchmark"
TEMBO_PIPE_COUNT=100000 tests/clients/redis_cli.sh
echo "==> Prometheus, tembo top"
target/venv/bin/python tests/clients/test_prometheus.py "$TEMBO_METRICS"
"$TEMBO" top "127.0.0.1:$TEMBO_PORT" --once >"$folder/top"
grep -q '^commands ' "$folder/top"
if command -v prometheus-redis-exporter >/dev/null; then
    echo "==> redis_exporter"
    exporter_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    prometheus-redis-exporter --redis.addr="redis://127.0.0.1:$TEMBO_PORT" --web.listen-address="127.0.0.1:$exporter_port" \
        2>"$folder/exporter" &
    exporter=$!
    target/venv/bin/python tests/clients/test_exporter.py "http://127.0.0.1:$exporter_port/metrics" "$TEMBO_METRICS"
    kill "$exporter"
    wait "$exporter" 2>/dev/null || true
    exporter=
else
    echo "SKIPPED: redis_exporter is not installed (apt install prometheus-redis-exporter)"
fi
# The tool is called memcapable, or memccapable in the newer fork that Debian has.
memcapable=$(command -v memcapable || command -v memccapable || true)
if [ -n "$memcapable" ]; then
    echo "==> memcapable"
    "$memcapable" -h 127.0.0.1 -p "$TEMBO_MEMCACHED_PORT"
else
    echo "SKIPPED: memcapable is not installed (apt install libmemcached-tools)"
fi
kill "$server"
wait "$server"
"$TEMBO" check "$folder/clients.pool"

echo "==> a million keys, SIGKILL, restart"
python3 tests/clients/test_pipe.py
echo "==> clients: ok"
