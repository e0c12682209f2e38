#!/usr/bin/env bash
# Installs nnvk into .venv: packages of the system that are missing, the virtual environment, the package itself.
#
#   bash scripts/install.sh          what is needed to use nnvk
#   bash scripts/install.sh --test   and to test it
#
# scripts/packages.sh installs the packages, or names them. A second run finds everything in place and takes about a
# second. PYTHON picks the interpreter (python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=""
case "${1:-}" in
    "") ;;
    --test) extra="test" ;;
    *) echo "usage: $0 [--test]" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1

bash scripts/packages.sh ${extra:+validation-layer}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10) and f"nnvk needs Python 3.10 or later, not {sys.version}")'

# What the installed package is made from. The stamp holds its hash, and says whether the test tools are there too.
sources=(pyproject.toml README.md CMakeLists.txt clib provider cmake native nnvk shaders tools scripts/constraints.txt)
fingerprint() {
    {
        "$python" -VV
        find "${sources[@]}" -type f ! -name '*.py[co]' ! -name '*.so' ! -path '*/vulkan/spirv/*' \
            ! -path 'nnvk/include/*' ! -path 'nnvk/lib/*' -print0 2>/dev/null |
            LC_ALL=C sort -z | xargs -0 sha256sum
    } | sha256sum | cut -d ' ' -f 1
}

stamp=.venv/.nnvk-installed
wanted=$(fingerprint)
read -r hash installed_extra <<<"$(cat "$stamp" 2>/dev/null || true)" || true
if [ "${hash:-}" = "$wanted" ] && { [ -z "$extra" ] || [ "${installed_extra:-}" = "$extra" ]; }; then
    exit 0
fi

if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
    "$python" -m venv --clear .venv
fi
rm -f "$stamp"
# The tools of the build go into the environment, not into a fresh one for every build: their paths stay the same, and
# CMake compiles only what has changed.
requires=$(.venv/bin/python - <<'PYTHON'
import pathlib
import re

text = pathlib.Path("pyproject.toml").read_text()
print("\n".join(re.findall(r'"([^"]+)"', re.search(r"^requires = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)[1])))
PYTHON
)
echo "Building and installing nnvk into .venv"
xargs .venv/bin/pip install --quiet <<<"$requires"
# The build backend asks for more on some systems: for CMake, where the system's is too old.
.venv/bin/python -c 'from scikit_build_core.build import get_requires_for_build_wheel as ask; print(*ask(), sep="\n")' |
    xargs --no-run-if-empty .venv/bin/pip install --quiet
# Whoever has the test tools keeps them.
extra=${extra:-${installed_extra:-}}
# The shaders take longest: scripts/wheels.sh has the same folder for them. With the test tools come the versions that the
# tests are known to pass with.
.venv/bin/pip install --quiet --no-build-isolation --config-settings "build-dir=build/{wheel_tag}" \
    --config-settings "cmake.define.NNVK_SPIRV_DIR=$PWD/build/spirv" \
    ${extra:+--constraint scripts/constraints.txt} ".${extra:+[$extra]}"
echo "$wanted $extra" >"$stamp"
