#!/bin/sh
# A real Redis Sentinel watches a primary and two replicas of the binary given. The primary is killed: a replica is promoted, the
# other one and, when it is back, the old primary follow it. Then a failover that is asked for. Exits with 77 where no Sentinel can be had.
set -eu
cd "$(dirname "$0")/.."
TEMBO=$(realpath "${1:-target/release/tembo}")

have() { command -v "$1" >/dev/null 2>&1; }
if ! have redis-sentinel || ! have redis-cli; then
    if have apt-get && [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-sentinel redis-tools </dev/null || true
    fi
    # 77: not run, which is no failure.
    if ! have redis-sentinel || ! have redis-cli; then
        echo "please install:  sudo apt-get install redis-sentinel redis-tools" >&2
        exit 77
    fi
fi

mkdir -p target
folder=$(mktemp -d target/sentinel.XXXXXX)
processes=""
# On every way out: what is still there is ours.
stop() {
    for process in $processes; do
        kill -9 "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT INT TERM

# serve NAME PORT [OPTION]...: starts a server; its port is in `port`, its process in `process`.
serve() {
    name=$1
    wanted=$2
    shift 2
    "$TEMBO" serve --pool "$folder/$name.pool" --port "$wanted" "$@" >"$folder/$name.ready" &
    process=$!
    processes="$processes $process"
    patience=600
    until grep -qs 'ready at' "$folder/$name.ready"; do
        patience=$((patience - 1))
        [ "$patience" -gt 0 ] || { echo "$name is not ready" >&2; exit 1; }
        sleep 0.1
    done
    port=$(sed -n 's/.*ready at [^ ]*:\([0-9]*\) .*/\1/p' "$folder/$name.ready")
}

# soon WHAT COMMAND...: waits until the command succeeds.
soon() {
    what=$1
    shift
    patience=600
    until "$@"; do
        patience=$((patience - 1))
        if [ "$patience" -le 0 ]; then
            echo "waited in vain: $what" >&2
            tail -20 "$folder/sentinel.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo "==> $what"
}

info_is() { redis-cli -p "$1" info replication 2>/dev/null | tr -d '\r' | grep -qx "$2"; }
follows() { info_is "$1" "master_port:$2" && info_is "$1" master_link_status:up; }
sentinel() { redis-cli -p "$watch" "$@" 2>/dev/null | tr -d '\r'; }
replicas_are() { [ "$(sentinel sentinel replicas tembo | grep -c '^runid$')" = "$1" ]; }
master_is_not() {
    new=$(sentinel sentinel get-master-addr-by-name tembo | tail -1)
    [ -n "$new" ] && [ "$new" != "$1" ]
}
holds() { [ "$(redis-cli -p "$1" get "$2" 2>/dev/null)" = "$3" ]; }
waited() { [ "$(redis-cli -p "$1" wait "$2" 1000)" = "$2" ]; }

serve primary 0
first=$port
first_process=$process
serve one 0 --replicaof 127.0.0.1 "$first"
one=$port
serve two 0 --replicaof 127.0.0.1 "$first"
two=$port

watch=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$folder/sentinel.conf" <<CONF
port $watch
bind 127.0.0.1
dir $PWD/$folder
logfile $PWD/$folder/sentinel.log
sentinel monitor tembo 127.0.0.1 $first 1
sentinel down-after-milliseconds tembo 2000
sentinel failover-timeout tembo 20000
CONF
redis-sentinel "$folder/sentinel.conf" >/dev/null &
processes="$processes $!"

soon "the replicas follow" follows "$one" "$first"
soon "the replicas follow" follows "$two" "$first"
soon "Sentinel knows both replicas" replicas_are 2
redis-cli -p "$first" set before kept >/dev/null
soon "both replicas hold it durably" waited "$first" 2

kill -9 "$first_process"
soon "Sentinel has promoted a replica" master_is_not "$first"
promoted=$new
other=$([ "$promoted" = "$one" ] && echo "$two" || echo "$one")
soon "the promoted replica is a primary" info_is "$promoted" role:master
soon "the other one follows it" follows "$other" "$promoted"
soon "nothing is lost" holds "$promoted" before kept
redis-cli -p "$promoted" set after kept >/dev/null
soon "the other one holds what is new" holds "$other" after kept
redis-cli -p "$promoted" info stats | tr -d '\r' | grep -x 'sync_full:0'

serve primary "$first"
soon "the old primary follows it, too" follows "$first" "$promoted"
soon "the old primary holds what is new" holds "$first" after kept

soon "Sentinel sees both" replicas_are 2
fail_over() { [ "$(sentinel sentinel failover tembo)" = OK ]; }
soon "a failover begins" fail_over
soon "Sentinel has promoted another" master_is_not "$promoted"
soon "it is a primary" info_is "$new" role:master
soon "the one before follows it" follows "$promoted" "$new"
redis-cli -p "$new" set last kept >/dev/null
soon "all replicas hold what is new" waited "$new" 2
echo "==> sentinel: ok"
