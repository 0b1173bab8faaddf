#!/bin/sh
# Brings what the tests and benchmarks need beside Rust: Redis's own tools, Python's libraries, and valgrind.
#
# Debian's packages come through apt when this may (root, or sudo without a password); otherwise it
# says which to install. Python's libraries go into a virtual environment in target/venv. No service is
# installed or started: the server comes out of redis-tools, whose one program takes either name.
set -eu
cd "$(dirname "$0")/.."

missing=""
have() { command -v "$1" >/dev/null 2>&1; }
have redis-benchmark && have redis-cli && have redis-check-rdb || missing="$missing redis-tools"
have python3 || missing="$missing python3"
have valgrind || missing="$missing valgrind"
have memcapable || have memccapable || missing="$missing libmemcached-tools"
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"

install_packages() {
    echo "installing:$missing"
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive $1 apt-get install -y --no-install-recommends $missing </dev/null ||
        { $1 apt-get update </dev/null &&
            DEBIAN_FRONTEND=noninteractive $1 apt-get install -y --no-install-recommends $missing </dev/null; }
}
if [ -n "$missing" ]; then
    if ! have apt-get; then
        echo "please install what Debian calls$missing" >&2
        exit 1
    elif [ "$(id -u)" = 0 ]; then
        install_packages ""
    elif have sudo && sudo -n true 2>/dev/null; then
        install_packages "sudo -n"
    else
        echo "please install:  sudo apt-get install$missing" >&2
        exit 1
    fi
fi

mkdir -p target/bin
if have redis-server; then
    ln -sfn "$(command -v redis-server)" target/bin/redis-server
else
    ln -sfn "$(command -v redis-check-rdb)" target/bin/redis-server
fi

if ! target/venv/bin/python -c 'import redis, prometheus_client' >/dev/null 2>&1; then
    rm -rf target/venv
    python3 -m venv target/venv
    target/venv/bin/pip install --quiet --disable-pip-version-check -r scripts/requirements.txt </dev/null
fi
target/bin/redis-server --version
target/venv/bin/python -c 'import redis; print("redis-py", redis.__version__)'
