#!/usr/bin/env bash
# Installs nnvk into .venv: packages of the system that are missing, the virtual environment, the package itself.
#
#   bash scripts/install.sh          what is needed to use nnvk, with .onnx models and pages with charts
#   bash scripts/install.sh --test   and to test it
#
# scripts/packages.sh installs the packages, or names them. Each step prints its name and the seconds that it took. A
# second run finds everything in place and takes about a second. PYTHON picks the interpreter (python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=onnx,tflite,report
case "${1:-}" in
    "") ;;
    --test) extra=test ;; # which has what the others have
    *) echo "usage: $0 [--test]" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1

packages=()
[ "$extra" != test ] || packages=(validation-layer glslangValidator)
bash scripts/packages.sh "${packages[@]}"

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
# Whoever has the test tools keeps them.
[ "${installed_extra:-}" != test ] || extra=test
if [ "${hash:-}" = "$wanted" ] && [ "${installed_extra:-}" = "$extra" ]; then
    exit 0
fi

# `step NAME COMMAND...` runs a command under its name, and counts its seconds in a terminal.
steps=4 number=0 clock=
trap '[ -z "$clock" ] || kill "$clock" 2>/dev/null || true' EXIT
step() {
    local name=$1 begin=$SECONDS status=0
    shift
    number=$((number + 1))
    echo "[$number/$steps] $name"
    # The shaders have a bar of their own.
    if [ -t 1 ] && [ "$1" != compile_shaders ]; then
        while sleep 1; do printf '      %d s\r' $((SECONDS - begin)); done & # what a command says comes in its place
        clock=$!
    fi
    "$@" || status=$?
    if [ -n "$clock" ]; then
        kill "$clock" && wait "$clock" 2>/dev/null || true
        clock=
        printf '\r'
    fi
    [ $status = 0 ] || { echo "      failed after $((SECONDS - begin)) s" >&2; exit $status; }
    echo "      done in $((SECONDS - begin)) s"
}

create_environment() {
    if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
        "$python" -m venv --clear .venv
    fi
}

rm -f "$stamp"
# The tools of the build go into the environment, not into a fresh one for every build: their paths stay the same, and
# CMake compiles only what has changed.
install_build_tools() {
    local requires
    requires=$(.venv/bin/python - <<'PYTHON'
import pathlib
import re

text = pathlib.Path("pyproject.toml").read_text()
lists = re.findall(r"^(?:build\.)?requires = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
print("\n".join(re.findall(r'"([^"]+)"', " ".join(lists))))
PYTHON
    ) || return
    xargs .venv/bin/pip install --quiet <<<"$requires" || return
    # The build backend asks for more on some systems: for CMake, where the system's is too old.
    .venv/bin/python -c 'from scikit_build_core.build import get_requires_for_build_wheel as ask; print(*ask(), sep="\n")' |
        xargs --no-run-if-empty .venv/bin/pip install --quiet
}

# The build would compile the shaders too, but pip hides the bar. It looks for them in this folder.
compile_shaders() { .venv/bin/python tools/compile_shaders.py --out build/spirv; }

# With the test tools come the versions that the tests are known to pass with.
install_nnvk() {
    local constraints=()
    [ "$extra" != test ] || constraints=(--constraint scripts/constraints.txt)
    .venv/bin/pip install --quiet --no-build-isolation --config-settings "build-dir=build/{wheel_tag}" \
        "${constraints[@]}" ".[$extra]"
}

step "Create the virtual environment .venv" create_environment
step "Install the tools of the build" install_build_tools
step "Compile the shaders" compile_shaders
step "Compile and install nnvk with its libraries" install_nnvk
echo "$wanted $extra" >"$stamp"
echo "nnvk is installed in .venv: source .venv/bin/activate"
