#!/bin/sh
# redis-cli and redis-benchmark against a running server; the port comes from TEMBO_PORT.
set -eu
port=${TEMBO_PORT:-6379}
count=${TEMBO_PIPE_COUNT:-1000000}

cli() { redis-cli -p "$port" "$@"; }
expect() { [ "$1" = "$2" ] || { echo "expected '$2', got '$1'" >&2; exit 1; }; }

expect "$(cli FLUSHALL)" OK
expect "$(cli SET 'a b' 'c d')" OK
expect "$(cli GET 'a b')" 'c d'
expect "$(cli -3 GET 'a b')" 'c d'
expect "$(cli TTL 'a b')" -1
expect "$(cli NOSUCH | cut -c1-19)" 'ERR unknown command'
expect "$(printf 'MULTI\nINCR n\nINCR n\nEXEC\n' | cli | tail -n 1)" 2
expect "$(cli --scan --pattern 'a*')" 'a b'
cli FLUSHALL >/dev/null

# A mass load: that many keys through --pipe.
replies=$(awk -v count="$count" 'BEGIN {
    for (i = 0; i < count; i++) {
        key = "key:" i; value = "value:" i
        printf "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", length(key), key, length(value), value
    }
}' | cli --pipe | tail -n 1)
expect "$replies" "errors: 0, replies: $count"
expect "$(cli DBSIZE)" "$count"
expect "$(cli GET "key:$((count - 1))")" "value:$((count - 1))"

# What looks at the whole server.
expect "$(cli --bigkeys | grep -c "^Biggest string found .* has ")" 1
expect "$(cli --memkeys | grep -c "^Biggest string found .* has ")" 1
# A large hash takes more than the value that names it.
cli EVAL "for at = 1, 2000 do redis.call('HSET', 'hash:many', at, at) end" 0 >/dev/null
cli HSET hash:few field "$(printf '%0600d' 0)" >/dev/null
expect "$(cli --memkeys | grep -cE '^Biggest +hash found .*hash:many.* has ')" 1
cli DEL hash:many hash:few >/dev/null
# It goes on until it is stopped.
expect "$(timeout 3 stdbuf -oL redis-cli -p "$port" --stat -i 0.1 | awk 'NR == 3 { print $1 }')" "$count"
expect "$(cli --latency --raw -i 0.1 | awk '{ print NF }')" 4

redis-benchmark -p "$port" -t ping,set,get,incr,mset -n 20000 -r 10000 -P 4 -q >/dev/null
cli FLUSHALL >/dev/null
echo "redis-cli and redis-benchmark: ok"
