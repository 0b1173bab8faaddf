# The two commands that a newcomer needs are `make run` and `make test`.

TARGET := $(or $(CARGO_TARGET_DIR),target)
POOL ?= ./tembo.pool

.PHONY: run build test fmt bench experiments torture

# Builds the server and starts it on ./tembo.pool at 127.0.0.1:6379.
run: build
	exec $(TARGET)/release/tembo serve --pool $(POOL)

build:
	cargo build --release --package tembo-cli

# Everything: what `cargo xtask ci` checks, the short kill test among it, what the hot paths cost, then the page of
# the published results as this commit makes it, in a browser if there is one, and real clients. Tests that compare with Redis
# find the server that the setup has made.
test:
	scripts/setup.sh </dev/null
	PATH="$(CURDIR)/target/bin:$$PATH" cargo xtask ci </dev/null
	cargo build --release --package tembo-cli --package tembo-lab
	$(TARGET)/release/tembo-lab guard </dev/null
	mkdir -p $(TARGET)/page
	cp docs/results/results.json $(TARGET)/page
	$(TARGET)/release/tembo-lab bench page --out $(TARGET)/page </dev/null
	scripts/bench/page.sh $(TARGET)/page/index.html </dev/null
	scripts/clients.sh $(TARGET)/release/tembo </dev/null

fmt:
	cargo fmt --all

# Side by side with Redis, then the restart; tables go to target/bench.
bench: build
	scripts/setup.sh </dev/null
	python3 scripts/bench/redis.py --tembo $(TARGET)/release/tembo
	python3 scripts/bench/commands.py --tembo $(TARGET)/release/tembo
	python3 scripts/bench/restart.py --tembo $(TARGET)/release/tembo

# The documents' experiments and today's rivals: a page. FULL=1 takes hours, goes on where it was interrupted, and
# is what may be published; else it is a smoke test of some minutes, which never overwrites a full run.
experiments:
	scripts/bench/rivals.sh
	cargo build --release --package tembo-cli --package tembo-lab --features tembo-lab/rivals,tembo-lab/rivals-debian
	$(TARGET)/release/tembo-lab bench all $(if $(FULL),--resume --out target/bench/full,--quick --out target/bench/quick)

# The kill test, 200 rounds in each domain, and the long crash test; then queues and locks of clients, whose servers are killed.
torture: build
	cargo xtask torture
	scripts/queues.sh $(TARGET)/release/tembo </dev/null
	scripts/locks.sh $(TARGET)/release/tembo </dev/null
