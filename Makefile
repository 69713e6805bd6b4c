# Two commands: `make demo` shows what ackgate does, `make test` proves it. Both do all their own set-up.

.PHONY: demo test bench lint clean setup build wheel test-python test-cluster

demo: build
	./target/release/ackgate demo --html out/demo.html

test: setup
	cargo test --locked

bench: build
	cargo bench --locked

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

build: setup
	cargo build --release --locked

# The Python package, without the workspace's other commands: it needs Python 3.10 and what packaging/python.sh installs.
python := target/python/bin

wheel: setup
	@./packaging/python.sh
	$(python)/maturin build --release --locked --manifest-path python/Cargo.toml --out target/wheels

test-python: wheel
	$(python)/pip install --quiet --force-reinstall --no-deps target/wheels/ackgate-*.whl
	$(python)/pytest -q -m "not cluster" python/tests

# Real Slurm and real Ray, started and stopped by the tests on this machine.
test-cluster: wheel
	@./packaging/python.sh cluster
	cargo build --release --locked -p ackgate
	$(python)/pip install --quiet --force-reinstall --no-deps target/wheels/ackgate-*.whl
	ACKGATE=$(CURDIR)/target/release/ackgate $(python)/pytest -q -m cluster python/tests

setup:
	@./packaging/setup.sh

clean:
	cargo clean
	rm -rf out
