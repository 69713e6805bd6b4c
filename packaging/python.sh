#!/usr/bin/env bash
# A virtual environment for building and testing the Python package, in target/python: `python.sh` for the package's
# tests, `python.sh cluster` for Ray and Slurm too (Slurm from the distribution, where it may be installed).
set -euo pipefail
cd "$(dirname "$0")/.."

environment=target/python
python=${PYTHON:-python3}
wanted="maturin ziglang polars pandas pyarrow matplotlib mypy nbclient nbformat ipykernel pytest tqdm"
if [ "${1:-}" = cluster ]; then wanted="$wanted ray"; fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "the Python package needs Python 3.10 or newer (PYTHON=... says which)" >&2
    exit 2
fi
if [ ! -x "$environment/bin/pip" ]; then "$python" -m venv "$environment"; fi
lacking=()
for package in $wanted; do
    [ -e "$environment/.has-$package" ] || lacking+=("$package")
done
if [ "${#lacking[@]}" -gt 0 ]; then
    echo "installing ${lacking[*]}"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "${lacking[@]}"
    for package in "${lacking[@]}"; do touch "$environment/.has-$package"; done
fi

export PATH="$PATH:/usr/sbin"
have_slurm() {
    local program
    for program in munged slurmctld slurmd sbatch; do command -v "$program" >/dev/null || return 1; done
}
if [ "${1:-}" = cluster ] && ! have_slurm; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "Slurm is not here and cannot be installed: its tests will be skipped" >&2
        echo "Install it as root: apt-get install slurmctld slurmd slurm-client munge" >&2
        exit 0
    fi
    echo "installing Slurm"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurmctld slurmd slurm-client munge >/dev/null
fi
