#!/usr/bin/env bash
# Installs nnvk into .venv: Debian packages that are missing, the virtual environment, the package itself.
#
#   bash scripts/install.sh          what is needed to use nnvk
#   bash scripts/install.sh --test   and to test it
#
# Packages are installed as root or with sudo without a password; otherwise the missing ones are named and the script
# ends with 1. A second run finds everything in place and takes about a second. PYTHON picks the interpreter (python3).
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

# --- Debian packages --------------------------------------------------------------------------------------------------

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() { has_command g++ && echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
has_file() { compgen -G "$1" >/dev/null; }
has_driver() { has_file "/usr/share/vulkan/icd.d/*.json" || has_file "/etc/vulkan/icd.d/*.json"; }
has_python() { has_command "$python"; }
has_venv() { has_python && "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }
has_python_headers() {
    has_python && "$python" -c 'import os, sysconfig as s; raise SystemExit(
        not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))'
}

missing=()
need() { # package, then a command that succeeds when what it brings is there
    local package=$1
    shift
    "$@" || missing+=("$package")
}

find_missing() {
    missing=()
    need python3 has_python
    need python3-venv has_venv
    need python3-dev has_python_headers
    need g++ has_command g++
    need cmake has_command cmake
    need ninja-build has_command ninja
    need libvulkan-dev has_header vulkan/vulkan.hpp
    need libfmt-dev has_header fmt/format.h
    need glslang-tools has_command glslangValidator
    need spirv-tools has_command spirv-val
    need mesa-vulkan-drivers has_driver
    if [ "$extra" = test ]; then
        need vulkan-validationlayers has_file "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"
    fi
}

install_packages() {
    local run=()
    if [ "$(id -u)" != 0 ]; then
        if has_command sudo && sudo -n true 2>/dev/null; then
            run=(sudo -n)
        else
            echo "These packages are missing, and installing them needs root: ${missing[*]}" >&2
            exit 1
        fi
    fi
    if ! has_command apt-get; then
        echo "These packages (Debian's names) are missing, and there is no apt-get: ${missing[*]}" >&2
        exit 1
    fi
    echo "Installing ${missing[*]}"
    "${run[@]}" apt-get update -qq
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

find_missing
if [ ${#missing[@]} -gt 0 ]; then
    install_packages
    find_missing
    if [ ${#missing[@]} -gt 0 ]; then
        echo "Still missing after the installation (is $python the system's Python?): ${missing[*]}" >&2
        exit 1
    fi
fi

# --- Python package ---------------------------------------------------------------------------------------------------

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10) and f"nnvk needs Python 3.10 or later, not {sys.version}")'

# What the installed package is made from. The stamp holds its hash, and says whether the test tools are there too.
sources=(pyproject.toml README.md CMakeLists.txt clib cmake native nnvk shaders tools)
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
# Whoever has the test tools keeps them.
extra=${extra:-${installed_extra:-}}
.venv/bin/pip install --quiet --no-build-isolation --config-settings "build-dir=build/{wheel_tag}" ".${extra:+[$extra]}"
echo "$wanted $extra" >"$stamp"
