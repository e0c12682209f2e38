#!/usr/bin/env bash
# Installs nnvk with its test tools and checks everything: style, types, layers, tests, and without arguments the wheel.
# Arguments go to pytest. As root, on Debian, it ends with the quick tests on Debian sid (scripts/test_on.sh).
# NNVK_SWIFTSHADER=1 brings a second Vulkan implementation to test on, where it is not here yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/install.sh --test
bin=$PWD/.venv/bin
"$bin/ruff" check .
"$bin/mypy"
"$bin/lint-imports" --no-logo
"$bin/python" tools/terms.py
# pytest itself, not `python -m pytest`, which would put the source tree before the installed package. Tests that compile
# many shaders lie together: a process that has none left takes others'.
pytest=("$bin/pytest" -n 2 --dist worksteal)
"${pytest[@]}" "$@"
if [ $# -eq 0 ]; then
    echo "The Vulkan driver again under the validation layer, then as the smallest device, then as a GPU:"
    vectors=(tests/conformance/test_suite.py -k "not nnapi-reference")
    # Mesa's software device spends most of the time on compiling shaders: a fifth less without LLVM's optimisations.
    export GALLIVM_PERF=nopt
    # A fifth of the driver's tests, which all ran before, and of the vectors, which all run next: `make validate` takes
    # all of both.
    NNVK_VALIDATION=1 "${pytest[@]}" -q -m "not numbers" --one-in 5 tests/driver/vulkan "${vectors[@]}"
    NNVK_VALIDATION=1 NNVK_DEVICE_PROFILE=mobile-min "${pytest[@]}" -q "${vectors[@]}"
    NNVK_DEVICE_PROFILE=gpu "${pytest[@]}" -q --sample 600 tests/conformance/test_suite.py::test_vectors \
        -k "not nnapi-reference"
    unset GALLIVM_PERF
    if [ "${NNVK_SWIFTSHADER:-}" = 1 ]; then bash scripts/swiftshader.sh >/dev/null || true; fi
    if [ -d build/swiftshader ]; then
        echo "The kernels on SwiftShader, another Vulkan implementation:"
        VK_ICD_FILENAMES=$(bash scripts/swiftshader.sh) "${pytest[@]}" -q -m "not numbers" \
            tests/driver/vulkan/test_generators.py \
            tests/driver/vulkan/test_late_values.py tests/driver/vulkan/test_control_flow.py "${vectors[@]}"
    else
        echo "Not tested on SwiftShader, which is not here: NNVK_SWIFTSHADER=1 brings it"
    fi
    bash scripts/test_wheel.sh
    # Ends with 3, and says why, where that system can't be made.
    bash scripts/test_on.sh sid --quick || [ $? = 3 ]
fi
