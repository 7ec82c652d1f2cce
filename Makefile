# The test command: `make test`. Everything that it needs beyond Rust is installed by `make tools`.

CARGO ?= cargo

.PHONY: test tools format lint no-std docs deny unit study

test: tools format lint no-std unit docs deny

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# The mechanisms run without an operating system: a target that has no std proves it.
no-std:
	$(CARGO) build -p lasthop-proto --locked --target thumbv7em-none-eabihf

unit:
	$(CARGO) test --workspace --locked

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

deny:
	$(CARGO) deny --offline check bans licenses sources

tools:
	./scripts/tools.sh

# The main job: the 1997 study beside its published numbers.
study:
	$(CARGO) run --release --locked -- reproduce balakrishnan1997
