#!/bin/sh
# The tests with real clients: every tests/clients/*.py, each against the binary given.
set -eu
cd "$(dirname "$0")/.."
tembo=$(realpath "${1:-target/release/tembo}")
export TEMBO="$tembo" TEMBO_BIN="$tembo"
PATH="$PWD/target/bin:$PATH"
found=0
for test in tests/clients/test_*.py; do
    [ -e "$test" ] || continue
    found=1
    echo "==> $test"
    target/venv/bin/python "$test"
done
[ "$found" = 1 ] || echo "==> no tests in tests/clients"
