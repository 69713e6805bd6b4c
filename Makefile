# Two commands: `make demo` shows what ackgate does, `make test` proves it. Both do all their own set-up.

.PHONY: demo test bench lint clean setup build

demo: build
	./target/release/ackgate demo --html out/demo.html

test: setup
	cargo test --workspace --locked

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
