#!/bin/sh
# Twemproxy (nutcracker) shares keys out among three servers of the binary given, by consistent hashing (ketama), for clients of Redis and of
# memcached. One server is killed: the keys of the others are served meanwhile, and its own are there again when it is. Then
# a fourth server is added: most keys stay where they are. Exits with 77 where no nutcracker can be had.
set -eu
cd "$(dirname "$0")/.."
TEMBO=$(realpath "${1:-target/release/tembo}")
KEYS=${TEMBO_KEYS:-3000}

PATH="$PATH:/usr/sbin"
have() { command -v "$1" >/dev/null 2>&1; }
if ! have nutcracker; then
    if have apt-get && [ "$(id -u)" = 0 ]; then
        # The package would start a service of its own, which has no configuration.
        DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends nutcracker </dev/null || true
    fi
    # 77: not run, which is no failure.
    if ! have nutcracker; then
        echo "please install:  sudo apt-get install nutcracker" >&2
        exit 77
    fi
fi

mkdir -p target
folder=$(mktemp -d target/twemproxy.XXXXXX)
processes=""
# On every way out: what is still there is ours.
stop() {
    for process in $processes; do
        kill -9 "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT INT TERM

# ready FILE TEXT: waits until the text is in the file.
ready() {
    patience=600
    until grep -qs "$2" "$1"; do
        patience=$((patience - 1))
        [ "$patience" -gt 0 ] || { echo "waited in vain for '$2' in $1" >&2; exit 1; }
        sleep 0.1
    done
}

# serve NAME PORT ITEMS: starts a server; its ports are in `port` and `items`, its process in `process`.
serve() {
    "$TEMBO" serve --pool "$folder/$1.pool" --domain logged --port "$2" --memcached-port "$3" >"$folder/$1.ready" &
    process=$!
    processes="$processes $process"
    ready "$folder/$1.ready" 'ready at'
    port=$(sed -n 's/.*ready at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/$1.ready")
    items=$(sed -n 's/.*memcached at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/$1.ready")
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# servers NUMBER...: the servers of a pool, as the configuration names them: keys are shared out by these names.
servers() {
    number=0
    for each in "$@"; do
        number=$((number + 1))
        echo "   - 127.0.0.1:$each:1 server$number"
    done
}

# pool NAME PORT REDIS NUMBER...: a part of the configuration.
pool() {
    cat <<CONF
$1:
  listen: 127.0.0.1:$2
  hash: fnv1a_64
  distribution: ketama
  redis: $3
  timeout: 10000
  auto_eject_hosts: false
  servers:
CONF
    shift 3
    servers "$@"
}

# proxy NAME: starts nutcracker with that configuration.
proxy() {
    nutcracker --conf-file="$folder/$1.yml" --output="$folder/$1.log" --stats-addr=127.0.0.1 --stats-port="$(free_port)" &
    processes="$processes $!"
}

check() { python3 tests/clients/twemproxy.py "$@"; }

serve one 0 0
one=$port
items_one=$items
serve two 0 0
two=$port
items_two=$items
second=$process
serve three 0 0
three=$port
items_three=$items

front=$(free_port)
front_items=$(free_port)
{
    pool keys "$front" true "$one" "$two" "$three"
    pool items "$front_items" false "$items_one" "$items_two" "$items_three"
} >"$folder/three.yml"
proxy three

check fill "$front" "$KEYS"
check spread "$KEYS" "$one" "$two" "$three"
check commands "$front"
check items "$front_items" "$KEYS" "$items_one" "$items_two" "$items_three"

kill -9 "$second"
wait "$second" 2>/dev/null || true
check without "$front" "$KEYS"
serve two "$two" "$items_two"
check all "$front" "$KEYS"
check spread "$KEYS" "$one" "$two" "$three"

serve four 0 0
front=$(free_port)
pool keys "$front" true "$one" "$two" "$three" "$port" >"$folder/four.yml"
proxy four
check moved "$front" "$KEYS"
echo "==> twemproxy: ok"
