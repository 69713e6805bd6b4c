#!/usr/bin/env bash
# Installs what a fresh Debian or Ubuntu machine lacks for building and for the lab: clang (for BPF), libelf, zlib, a C
# compiler, iproute2. Does nothing where all is there; says what to do where it may not install.
set -euo pipefail

need_rust="1.88"
packages=()
have_header() { command -v cc >/dev/null && printf '#include <%s>\n' "$1" | cc -E -xc - >/dev/null 2>&1; }
clang_ok() {
    local c
    for c in clang clang-{22..16}; do
        if command -v "$c" >/dev/null && [ "$("$c" -dumpversion | cut -d. -f1)" -ge 16 ]; then return 0; fi
    done
    return 1
}
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; }

command -v cc >/dev/null || packages+=(gcc libc6-dev)
command -v make >/dev/null || packages+=(make)
command -v pkg-config >/dev/null || packages+=(pkg-config)
command -v ip >/dev/null || packages+=(iproute2)
command -v ethtool >/dev/null || packages+=(ethtool)
command -v iptables >/dev/null || packages+=(iptables)
have_header libelf.h || packages+=(libelf-dev)
have_header zlib.h || packages+=(zlib1g-dev)

updated=no
if ! clang_ok; then
    if can_install; then as_root apt-get update -qq && updated=yes; fi
    best=$(apt-cache search --names-only '^clang-(1[6-9]|2[0-9])$' 2>/dev/null | cut -d' ' -f1 | sort -V | tail -n1)
    packages+=("${best:-clang}")
fi
if [ "${#packages[@]}" -gt 0 ]; then
    if ! can_install; then
        echo "ackgate needs: ${packages[*]}" >&2
        echo "Install them as root: apt-get install ${packages[*]}" >&2
        exit 2
    fi
    echo "installing ${packages[*]}"
    [ "$updated" = yes ] || as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null
fi

version=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
if [ -z "$version" ] || [ "$(printf '%s\n' "$need_rust" "$version" | sort -V | head -n1)" != "$need_rust" ]; then
    echo "ackgate needs Rust $need_rust or newer (found: ${version:-none}). Install it with rustup: https://rustup.rs" >&2
    exit 2
fi
