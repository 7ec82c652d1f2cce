# `make test` is the test command. It needs Rust (stable, by rustup), a C linker and Python 3.11, and installs nothing. `make test-all` adds
# everything else, and installs the tools that it needs when run as root.

CARGO ?= cargo
export CARGO

# The property tests draw the same inputs on every machine; `make soak` draws new ones.
PROPTEST_RNG_SEED ?= 1
PROPTEST_MAX_SHRINK_TIME ?= 60000
export PROPTEST_RNG_SEED PROPTEST_MAX_SHRINK_TIME

.PHONY: test test-all tools format prose benches lint unit root python no-std docs deny ns2 browser page page-test fuzz soak speed live agreement attacks firewalls latency study walkthroughs mutations dist dist-test

test:
	@./scripts/test.sh format prose benches lint unit

test-all:
	@./scripts/test.sh tools format prose benches lint unit root python no-std docs deny ns2 browser fuzz walkthroughs

# Tools that the steps of `test-all` need beyond Rust and Python.
tools:
	@./scripts/tools.sh

format:
	$(CARGO) fmt --all --check

# Terms, doc comments and line lengths. The faults of `mutations` and the walkthroughs still fit the sources.
prose:
	python3 scripts/prose.py --self-test
	python3 scripts/prose.py
	python3 scripts/mutations.py --check
	python3 scripts/walkthroughs.py --check

# Tests of the analyses in benches/ on sequences made by hand.
benches:
	python3 benches/quic/test_quic.py
	python3 benches/peers/test_speed.py

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Unit, integration, property and documentation tests.
unit:
	$(CARGO) test --workspace --locked --no-fail-fast

# Tests on real packets in network namespaces; skipped without root.
root:
	@./scripts/root.sh

# The Python package: installed as users do, and tested, on a Dask cluster as well.
python:
	@./scripts/python.sh

# The mechanisms run without an operating system, their dependencies too.
no-std:
	@./scripts/no-std.sh

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Licences, sources and known vulnerabilities of the dependencies.
deny:
	@./scripts/deny.sh

# Every segment as ns-2 sends it, where ns-2 is installed.
ns2:
	@./scripts/ns2.sh

# The page of `serve` and the page of `reproduce` in Chromium, where Node.js and Chromium are installed.
browser:
	@./scripts/browser.sh

# The page without a server, a folder of static files: target/page. STUDIES=FOLDER, written by
# `lasthop reproduce --out FOLDER`, adds the pages of studies.
page:
	@./scripts/page.sh

# Its numbers beside those of the native program, and the page in Chromium, where Node.js and Chromium are installed. Not part
# of `test-all`: the build for browsers takes minutes.
page-test:
	@./scripts/page-test.sh

# Each fuzz target for FUZZ_SECONDS (10), where a nightly Rust and cargo-fuzz are installed.
fuzz:
	@./scripts/fuzz.sh

# The property tests with new inputs, SOAK_ROUNDS (10) times; a failure prints the seed to give again as PROPTEST_RNG_SEED.
soak:
	@./scripts/soak.sh

# CPU time and instructions of a transfer: of lasthop, a bare event loop, and ns-2 and ns-3 as far as they are installed.
speed:
	$(CARGO) build --release --locked --package lasthop
	$(CARGO) build --release --locked --package lasthop-sim --example bare_loop
	python3 benches/peers/speed.py

# The gateway beside its peers, what it costs, and what the tunnel costs; for root (docs/benchmarks-live.md).
live:
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked -p lasthop-gateway -p lasthop-tunneld --examples
	python3 benches/live/peers.py
	python3 benches/live/speed.py
	python3 benches/live/tunnel_speed.py

# Compares the simulator with this kernel: results into docs/data/, summary into docs/agreement.md; hours, kept run by run. For root.
agreement:
	$(CARGO) build --release --locked
	python3 benches/agreement/scripts.py --page docs/agreement.md
	python3 benches/agreement/grid.py
	python3 benches/agreement/offloads.py

# Attacks on connections, with the gateway and without: nothing may be worse with it. For root (docs/security.md).
attacks:
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked -p lasthop-gateway --examples
	python3 benches/live/attacks.py --require
	python3 benches/live/flood.py --require
	python3 benches/live/replays.py --rate 50000 --require
	$(CARGO) run --release --locked -p lasthop-gateway --example worst_packet

# The gateway beside other programs' rules: nothing may be worse with it, and `check` says so before. For root.
firewalls:
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked -p lasthop-gateway --examples
	python3 benches/live/firewalls.py --require

# How long after a slider moves the page of `serve` has new numbers.
latency: browser
	$(CARGO) build --release --locked
	node benches/serve/latency.js

# The main job: the 1997 study beside its published numbers.
study:
	$(CARGO) run --release --locked -- reproduce balakrishnan1997

# What docs/models/adding.md says, done in a copy of the sources.
walkthroughs:
	python3 scripts/walkthroughs.py

# Faults put into a copy of the sources, one at a time: the tests must catch each. Some minutes a fault at first.
mutations:
	python3 scripts/mutations.py

# What is given to others, into dist/: source archive, Debian package, wheel. An optimised build: some ten minutes.
dist:
	@./scripts/dist.sh

# Each of them is installed where nothing of it was, used, upgraded and removed. For root; some minutes.
dist-test:
	@./scripts/dist-test.sh
