#!/usr/bin/env bash
# Brings what building and the lab need on a fresh Debian or Ubuntu: a tested clang for the BPF programs, Rust, libelf, zlib, a C
# compiler, iproute2, ethtool, iptables. Names everything before it installs, asks nothing, and does nothing where all is there.
#   packaging/setup.sh                # for `make demo` and `make test`
#   packaging/setup.sh --compilers    # and every compiler of the matrix that this distribution has (`make test-compilers`)
#   packaging/setup.sh --kernels      # and what boots other kernels (`make test-kernels`)
# Exit status: 2 when something is missing and may not or cannot be installed; what is missing is said.
set -euo pipefail
here=$(dirname "$0")
. "$here/rust.sh"

compilers=no kernels=no
for argument in "$@"; do
    case $argument in
    --compilers) compilers=yes ;;
    --kernels) kernels=yes ;;
    *) echo "setup.sh knows --compilers and --kernels, not $argument" >&2; exit 2 ;;
    esac
done

packages=() rustup=no
have_header() { command -v cc >/dev/null && printf '#include <%s>\n' "$1" | cc -E -xc - >/dev/null 2>&1; }
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; }
offered() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[0-9]* ]]; }
updated=no
update() {
    if [ $updated = no ] && can_install; then
        updated=yes
        echo "setup: fetching the package lists"
        as_root apt-get update -qq
    fi
}

command -v cc >/dev/null || packages+=(gcc libc6-dev)
command -v make >/dev/null || packages+=(make)
command -v pkg-config >/dev/null || packages+=(pkg-config)
# Loopback addresses, namespaces, queues and filters; offloads; `--hold nfqueue`.
command -v ip >/dev/null || packages+=(iproute2)
command -v ethtool >/dev/null || packages+=(ethtool)
command -v iptables >/dev/null || packages+=(iptables)
have_header libelf.h || packages+=(libelf-dev)
have_header zlib.h || packages+=(zlib1g-dev)
[ -e /usr/include/linux/bpf.h ] || packages+=(linux-libc-dev)

# The compiler: the first of the tested ones, unless another tested one is there; an untested one only where the distribution has
# nothing else, and then the build warns.
mapfile -t tested < <("$here/tested-compilers")
have_tested() { local v; for v in "${tested[@]}"; do command -v "clang-$v" >/dev/null && return 0; done; return 1; }
if [ -n "${CLANG:-}" ]; then
    command -v "$CLANG" >/dev/null || { echo "CLANG names \`$CLANG\`, which is not there" >&2; exit 2; }
elif [ $compilers = yes ]; then
    update
    for version in "${tested[@]}"; do
        command -v "clang-$version" >/dev/null && continue
        if offered "clang-$version"; then packages+=("clang-$version"); else
            echo "setup: this distribution has no clang-$version; the matrix goes without"
        fi
    done
elif ! have_tested; then
    update
    chosen=
    for version in "${tested[@]}"; do offered "clang-$version" && { chosen=clang-$version; break; }; done
    packages+=("${chosen:-clang}")
fi

if [ $kernels = yes ]; then
    command -v qemu-system-x86_64 >/dev/null || packages+=(qemu-system-x86)
    command -v busybox >/dev/null || packages+=(busybox-static)
    command -v depmod >/dev/null || packages+=(kmod)
    command -v cpio >/dev/null || packages+=(cpio)
    command -v xz >/dev/null || packages+=(xz-utils)
fi

if ! rust_is_new_enough; then
    update
    if source_of_rust=$(rust_packages); then
        read -ra from <<<"$source_of_rust"
        packages+=("${from[@]}")
    else
        rustup=yes
        command -v curl >/dev/null || packages+=(curl ca-certificates)
    fi
fi

if [ "${#packages[@]}" -gt 0 ]; then
    if ! can_install; then
        echo "ackgate needs: ${packages[*]}" >&2
        echo "Install them as root: apt-get install ${packages[*]}" >&2
        exit 2
    fi
    update
    echo "setup: installing ${packages[*]}"
    echo "setup: with what these depend on:"
    as_root apt-get install -s --no-install-recommends "${packages[@]}" | sed -n 's/^Inst \([^ ]*\).*/\1/p' | sort | paste -sd ' ' |
        fold -sw 110 | sed 's/^/    /'
    # A line for each package that is unpacked and set up, so that a slow machine is seen to move.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${packages[@]}" \
        </dev/null | sed -unE '/^(Need to get|Unpacking|Setting up)/s/^(.{0,100}).*/\1/p' || {
        echo "setup: apt-get could not install ${packages[*]}" >&2
        exit 2
    }
fi
if [ $rustup = yes ]; then
    install_rustup
fi
rust_is_new_enough || {
    echo "ackgate needs Rust $need_rust or newer, and this is $(rust_version): install it, for example with rustup (https://rustup.rs)" >&2
    exit 2
}
