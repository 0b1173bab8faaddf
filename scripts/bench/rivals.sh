#!/bin/sh
# Installs what `tembo-lab bench` compares with, from Debian's packages: the servers redis and memcached, the
# libraries of RocksDB, Berkeley DB and libpmemobj, valgrind, and bindfs. Nothing of it is needed to build or test Tembo, and
# no service is left running. Then, for all of them:
#
#   cargo build --release --package tembo-cli --package tembo-lab --features tembo-lab/rivals,tembo-lab/rivals-debian
set -eu

packages="redis-server memcached librocksdb-dev libdb5.3-dev libpmemobj-dev valgrind bindfs fuse3"
if [ "$(id -u)" = 0 ]; then
    become=""
else
    become="sudo -n"
fi
# Debian starts what it installs, unless this says no.
policy=/usr/sbin/policy-rc.d
made=""
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $become tee "$policy" >/dev/null
    $become chmod +x "$policy"
    made=yes
fi
# shellcheck disable=SC2086  # lists of words
$become env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages </dev/null ||
    { $become apt-get update </dev/null &&
        $become env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages </dev/null; }
if [ -n "$made" ]; then
    $become rm -f "$policy"
fi
