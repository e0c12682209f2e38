#!/usr/bin/env bash
# Installs nnvk with its test tools and tests it.
#
#   bash scripts/test.sh               proves the installation, within 8 minutes on two cores: the tests that
#                                      tests/proof.txt names, and 600 of the conformance vectors
#   bash scripts/test.sh --all         proves it, then runs linters, all other tests, other devices, the wheel and other
#                                      systems, in 20 to 45 minutes. It does not repeat a proof of the same source
#   bash scripts/test.sh ARGUMENT...   runs pytest with these arguments on the installed package
#
# --all needs root and Debian for the tests on Debian 13 and sid (scripts/test_on.sh), and a network for SwiftShader, a
# second Vulkan implementation. It says in one line what it cannot run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/install.sh --test
unset PYTHONDONTWRITEBYTECODE # what pytest compiles of the tests takes half the time of collecting them
bin=$PWD/.venv/bin
# pytest itself, not `python -m pytest`, which would put the source tree before the installed package.
pytest=("$bin/pytest" -n 2 --dist worksteal)
if [ $# -gt 0 ] && [ "$1" != --all ]; then
    exec "${pytest[@]}" "$@"
fi

stages=()
# Runs a stage: a title, then a command.
stage() {
    local begin=$SECONDS
    printf '\n%s:\n' "$1"
    "${@:2}"
    stages+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$1")")
}

prove() {
    mapfile -t files < <(sed -E '/^#|^$/d; s/::.*//' tests/proof.txt | sort -u)
    "${pytest[@]}" --proof only --sample 600 --in-turn "${files[@]}"
}
proved=build/proved
source=$(cat .venv/.nnvk-installed; find tests benchmarks tools examples docs -type f ! -name '*.py[co]' -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum)
if [ $# = 0 ] || [ "$(cat $proved 2>/dev/null)" != "$source" ]; then
    stage "The proof of the installation" prove
    echo "$source" >$proved
fi
[ $# -gt 0 ] || exit 0

# mypy knows NumPy by its type stubs, so another version than the installed one need not run here.
check_types_of_other_numpys() {
    local installed version folder
    installed=$("$bin/python" -c 'import numpy; print(numpy.__version__)')
    for version in $(sed -nE 's/^numpy==([0-9.]+);.*/\1/p' scripts/constraints.txt); do
        [ "$version" != "$installed" ] || continue
        folder=build/numpy-$version
        # pip checks what a package requires against the Python that runs, whatever --python-version says.
        [ -d "$folder" ] || "$bin/pip" install --quiet --no-deps --only-binary :all: --python-version 3.12 \
            --ignore-requires-python --target "$folder" "numpy==$version"
        PYTHONPATH=$folder "$bin/mypy" --python-version 3.12 --cache-dir "build/mypy-$version"
    done
}
# pytest compiles what it collects, which each worker of the next stage would do itself.
compile_tests() { "$bin/pytest" --collect-only -q >build/collected || { tail -n 40 build/collected; return 1; }; }
lint() {
    local beside # on the other core
    { compile_tests; check_types_of_other_numpys; } &
    beside=$!
    "$bin/mypy"
    "$bin/ruff" check .
    "$bin/lint-imports" --no-logo
    "$bin/python" tools/terms.py
    "$bin/python" tools/lines.py
    wait "$beside"
}
# These wait for packages and for single compilers half of the time: they go on beside the tests here, and what they print
# comes in the end.
elsewhere() {
    stage "The wheel" bash scripts/test_wheel.sh
    stage "Debian 13, by the second command of the README" on_debian trixie
    stage "Debian sid, with the wheel" on_sid
    printf '%s\n' "${stages[@]}" >build/stages
}
# test_on.sh ends with 3, and says why, where it cannot make the system.
on_debian() { bash scripts/test_on.sh "$@" || [ $? = 3 ]; }
on_sid() {
    local wheel
    wheel=$(find build/wheels -name "nnvk-*-abi3-*_$(uname -m).whl" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
    [ -n "$wheel" ] || { echo "Not tested on Debian sid: no Python here builds a wheel of the stable ABI"; return 0; }
    on_debian sid "$wheel"
}
set -m # a process group, which ends as a whole
(stages=(); elsewhere) </dev/null >build/elsewhere.log 2>&1 &
job=$!
set +m
trap 'kill -- "-$job" 2>/dev/null || true' EXIT

stage "Linters, and types with each NumPy of scripts/constraints.txt" lint
# Mesa's software device spends most of the time on compiling shaders: a fifth less without LLVM's optimisations, with
# which the proof ran. What a stage has compiled is in the driver's cache on disk for the next.
export GALLIVM_PERF=nopt
stage "All other tests, on devices in turn" "${pytest[@]}" --proof without --validated without --in-turn --durations 30

vectors=(tests/conformance/test_suite.py -k "not nnapi-reference")
# A fifth of the Vulkan devices' tests, which the stage before leaves out: `make validate` takes all of them.
validate() {
    NNVK_VALIDATION=1 "${pytest[@]}" --validated only --in-turn tests/driver/vulkan tests/conformance/test_suite.py
}
stage "The Vulkan driver under the validation layer" validate
smallest() { NNVK_VALIDATION=1 NNVK_DEVICE_PROFILE=mobile-min "${pytest[@]}" "${vectors[@]}"; }
stage "The smallest device under the validation layer" smallest
as_gpu() {
    NNVK_DEVICE_PROFILE=gpu "${pytest[@]}" --sample 600 tests/conformance/test_suite.py::test_vectors \
        -k "not nnapi-reference"
}
stage "The software device as a GPU" as_gpu
on_swiftshader() {
    local manifest
    manifest=$(bash scripts/swiftshader.sh) || { echo "Not tested on SwiftShader, which is not to be had here"; return 0; }
    VK_ICD_FILENAMES=$manifest "${pytest[@]}" -m "not numbers" --in-turn tests/driver/vulkan/test_generators.py \
        tests/driver/vulkan/test_late_values.py tests/driver/vulkan/test_control_flow.py "${vectors[@]}"
}
stage "SwiftShader, another Vulkan implementation" on_swiftshader
code=0
wait "$job" || code=$?
trap - EXIT
cat build/elsewhere.log
[ $code = 0 ] || exit $code
mapfile -t -O ${#stages[@]} stages <build/stages
printf '\nStages:\n'
printf '%s\n' "${stages[@]}"
