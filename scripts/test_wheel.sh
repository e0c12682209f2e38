#!/usr/bin/env bash
# What CI checks of the packaging: an isolated build gives a wheel that runs where there is neither a compiler nor, if
# need be, a Vulkan loader; and an editable installation finds what was built for it. Needs what install.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

# That of the stable ABI, which scripts/test_on.sh takes to another system. Where no Python has it, PYTHON's own.
python=$(bash scripts/find_python.sh cp312) || python=${PYTHON:-python3}
tag=$("$python" -c 'import sys; print(f"cp3{min(sys.version_info[1], 12)}")')
echo "The wheel $tag, in an environment without a compiler:"
bash scripts/wheels.sh build/wheels "$tag-$(uname -m)"
"$python" -m venv "$work/env"
"$work/env/bin/pip" install --quiet build/wheels/nnvk-*-"$tag"-*manylinux*_"$(uname -m)".whl
mkdir "$work/home"
run() { (cd "$work" && env -i HOME="$work/home" PATH="$work/env/bin" "$@"); }
[ "$(run nnvk --version)" = "nnvk $(.venv/bin/python -c 'import nnvk; print(nnvk.__version__)')" ]
run nnvk devices >"$work/devices.txt"
grep -q vulkan-0 "$work/devices.txt"
run nnvk demo --out "$work/demo" >/dev/null
test -s "$work/demo/nnvk-demo.png"
cc -D_DEFAULT_SOURCE examples/c/add.c -o "$work/add" $(run nnvk config --includes --ldflags) -lm
env -i HOME="$work/home" "$work/add" 1 2
test -s "$(run nnvk config --delegate)"
test -s "$(run nnvk config --accelerator)/libLiteRtGpuAccelerator.so"

echo "Without the Vulkan loader:"
mkdir "$work/no-loader" && touch "$work/no-loader/libvulkan.so.1"
run LD_LIBRARY_PATH="$work/no-loader" nnvk devices >"$work/devices.txt"
grep -q "the Vulkan loader can't be loaded" "$work/devices.txt"
grep -q nnapi-reference "$work/devices.txt"
run LD_LIBRARY_PATH="$work/no-loader" nnvk demo --out "$work/demo" >/dev/null

echo "An editable installation:"
"${PYTHON:-python3}" -m venv "$work/editable"
# The tools and packages of .venv, and the build folder of install.sh, where everything is compiled already.
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$(echo "$work"/editable/lib/python3*/site-packages)/tools.pth"
"$work/editable/bin/pip" install --quiet --no-deps --no-build-isolation --config-settings "build-dir=build/{wheel_tag}" \
    --editable .
(cd "$work" && env -u PYTHONPATH "$work/editable/bin/python" - "$root" <<'PYTHON'
import sys
import nnvk
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

assert nnvk.__file__.startswith(sys.argv[1]), nnvk.__file__
ShaderLibrary()
assert nnvk.get_devices()[0].name == "vulkan-0", nnvk.unavailable()
PYTHON
)
