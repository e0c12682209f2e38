#!/usr/bin/env bash
# Prints a Python that builds wheels with a tag: cp310, cp311, or cp312 (any from 3.12 on, as that wheel has the stable ABI).
#
#   bash scripts/find_python.sh TAG
#
# It looks at PYTHON (python3), on the PATH, and among pyenv's. uv downloads one that is missing from GitHub; where that
# fails, the script ends with 3.
set -euo pipefail
[ $# = 1 ] && [[ $1 =~ ^cp31[012]$ ]] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
tag=$1 version=3.${1#cp3}

# Whether $1 is a Python of this tag, with headers, venv and ensurepip.
builds() {
    command -v "$1" >/dev/null && "$1" - "$tag" 2>/dev/null <<'PYTHON'
import os, sys, sysconfig, venv, ensurepip

fits = f"cp3{min(sys.version_info[1], 12)}" == sys.argv[1] and not sysconfig.get_config_var("Py_GIL_DISABLED")
sys.exit(not fits or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PYTHON
}

candidates=("${PYTHON:-python3}" "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python)
[ "$tag" != cp312 ] || candidates+=(python3.13 python3.14)
for candidate in "${candidates[@]}"; do
    if builds "$candidate"; then
        echo "$candidate"
        exit
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work"
"$work/bin/pip" install -qq uv
if "$work/bin/uv" python install "$version" >&2; then
    "$work/bin/uv" python find --managed-python "$version"
else
    echo "There is no Python $version with headers, venv and ensurepip here, and uv can't fetch it" >&2
    exit 3
fi
