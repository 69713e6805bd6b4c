# Two commands: `make demo` shows what ackgate does, `make test` proves it. Both do all their own set-up.

.PHONY: demo test test-compilers test-kernels budget bench lint clean setup build

# Where rustup, if set-up had to fetch it, puts cargo.
export PATH := $(PATH):$(HOME)/.cargo/bin

demo: setup
	cargo build --release --locked -p ackgate
	./target/release/ackgate demo --html out/demo.html

test: setup
	cargo test --workspace --locked

# The BPF programs by every tested compiler, on the running kernel (docs/platforms.md).
test-compilers:
	@./packaging/setup.sh --compilers
	./packaging/test-compilers

# Guard and lab under other kernels, in a virtual machine.
test-kernels:
	@./packaging/setup.sh --compilers --kernels
	./packaging/test-kernels

# Writes down what the verifier has to look at in each program.
budget:
	@./packaging/setup.sh --compilers
	./packaging/test-compilers --budget

bench: build
	cargo bench --workspace --locked

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

build: setup
	cargo build --release --locked --workspace

setup:
	@./packaging/setup.sh

clean:
	cargo clean
	rm -rf out
