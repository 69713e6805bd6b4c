# Which Rust there is, and where a new enough one comes from. Read by setup.sh.

# The workspace's own word for it.
need_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../Cargo.toml")

# rustup puts its tools where a shell finds them only after a new login.
export PATH="$PATH:$HOME/.cargo/bin"

rust_version() { (cargo --version && rustc --version >/dev/null) 2>/dev/null | cut -d' ' -f2 | grep . || echo none; }

# at_least A B: whether version A is B or newer.
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

rust_is_new_enough() {
    local version
    version=$(rust_version)
    [ "$version" != none ] && at_least "$version" "$need_rust"
}

# Packages of the distribution that bring a new enough Rust: its usual one, or the one that Debian keeps new for browsers. Fails
# where it has none, or where another Rust of the distribution is in the way.
rust_packages() {
    local pair compiler cargo candidate
    for pair in "rustc cargo" "rustc-web cargo-web"; do
        read -r compiler cargo <<<"$pair"
        candidate=$(apt-cache policy "$compiler" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
        if [ -n "$candidate" ] && at_least "$candidate" "$need_rust"; then
            echo "$compiler $cargo"
            return 0
        fi
    done
    return 1
}

# The project's own installer, asking nothing.
install_rustup() {
    echo "setup: installing Rust with rustup (https://rustup.rs) into $HOME/.cargo and $HOME/.rustup"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path
    hash -r
}
