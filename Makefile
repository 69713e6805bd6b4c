# Two commands: `make demo` shows what ackgate does, `make test` proves it. Both do all their own set-up.

.PHONY: demo test dist test-dist test-compilers test-kernels budget bench lint clean setup build wheel test-python test-cluster deny fuzz faults soak

# Where rustup, if set-up had to fetch it, puts cargo.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Wherever the user's settings would have it: here, and in scripts and docs, what is built is looked for there.
export CARGO_TARGET_DIR := $(CURDIR)/target

demo: setup
	cargo build --release --locked -p ackgate
	./target/release/ackgate demo --html out/demo.html

test: setup
	cargo test --locked

# The BPF programs by every tested compiler, on the running kernel (docs/platforms.md).
test-compilers:
	@./packaging/setup.sh --compilers
	./packaging/test-compilers

# Guard and lab under other kernels, in a virtual machine.
test-kernels:
	@./packaging/setup.sh --compilers --kernels
	./packaging/test-kernels

# Writes down what the verifier has to look at in each program, and has that of the oldest kernel look, too.
budget:
	@./packaging/setup.sh --compilers --kernels
	./packaging/test-compilers --budget

bench: build
	cargo bench --locked

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# The fuzz targets under libFuzzer, long; PART=1/1000 for a thousandth of it.
PART ?= 1/1
fuzz: setup
	./fuzz/run --share $(PART)

# What 100 connections notice when something happens to their guard.
faults:
	cargo build --release --locked -p ackgate
	./target/release/ackgate lab faults

# A guard under mixed load: memory flat, nothing left, counters that add up.
TIME ?= 30m
soak:
	cargo build --release --locked -p ackgate
	./target/release/ackgate lab soak --time $(TIME)

# Licences, sources and known vulnerabilities of everything in the lock file (deny.toml).
deny:
	@./packaging/deny

build: setup
	cargo build --release --locked

# A Debian package in target/dist.
dist: build
	./packaging/deb

# Tries it in a copy of a bare Debian root: make test-dist ROOT=/path/of/a/debootstrap/tree
test-dist: dist
	./packaging/test-dist target/dist/ackgate_*.deb $(ROOT)

# The Python package, without the workspace's other commands: it needs Python 3.10 and what packaging/python.sh installs.
python := target/python/bin

wheel: setup
	@./packaging/python.sh
	PATH=$(CURDIR)/$(python):$$PATH maturin build --release --locked --zig --compatibility manylinux2014 --manifest-path python/Cargo.toml --out target/wheels

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
