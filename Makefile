# Shortcuts for working on nnvk. `make build` puts the extension module and the shaders into the source tree, so that
# `PYTHONPATH=. python` and `pytest` run what is being edited; scripts/*.sh install into .venv instead. The tools are
# those of .venv (`bash scripts/install.sh --test`) where it is there.
BIN := $(if $(wildcard .venv/bin/python3),.venv/bin/)
PYTHON ?= $(BIN)python3
# `make native SANITIZE=address` builds the extension module with a sanitizer; see CONTRIBUTING.md.
SANITIZE ?=
BUILD ?= build/$(if $(SANITIZE),$(SANITIZE),tree)
# An unpacked source release of Kompute 0.9.0, for builds without a network; fetched from PyPI when empty.
KOMPUTE_SOURCE_DIR ?=

.PHONY: build shaders native test validate sanitize wheel wheels check mutate docs picture install demo clean

build: native shaders

native:
	cmake -S . -B $(BUILD) -DPython_EXECUTABLE="$$($(PYTHON) -c 'import sys; print(sys.executable)')" \
	    -DNNVK_BUILD_SHADERS=OFF $(if $(KOMPUTE_SOURCE_DIR),-DKOMPUTE_SOURCE_DIR=$(KOMPUTE_SOURCE_DIR)) \
	    $(if $(SANITIZE),-DNNVK_SANITIZE=$(SANITIZE) -DCMAKE_BUILD_TYPE=RelWithDebInfo)
	cmake --build $(BUILD) --parallel
	cmake --install $(BUILD) --prefix .

shaders:
	$(PYTHON) tools/compile_shaders.py

# What CI runs.
test:
	bash scripts/test.sh

# The Vulkan driver and the conformance vectors on it under the validation layer, of which any message is a failure.
validate:
	NNVK_VALIDATION=1 PYTHONPATH=. $(PYTHON) -m pytest -n 2 -q tests/driver/vulkan tests/conformance/test_suite.py \
	    -k "not nnapi-reference"
	NNVK_VALIDATION=1 NNVK_DEVICE_PROFILE=mobile-min PYTHONPATH=. $(PYTHON) -m pytest -n 2 -q \
	    tests/conformance/test_suite.py -k "not nnapi-reference"

# The extension module's tests under AddressSanitizer. `make native` brings the plain module back.
sanitize:
	$(MAKE) native SANITIZE=address
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(CURDIR) $(PYTHON) -m pytest -q tests/native

# Wheels that run on other machines, in dist/: this machine's, or all.
wheel:
	bash scripts/wheels.sh dist native

wheels:
	bash scripts/wheels.sh dist

# The quick part, on the source tree.
check:
	$(BIN)ruff check .
	$(BIN)mypy
	$(BIN)lint-imports --no-logo

# A random sample of mutants of a package: which changes of it no test notices.
PACKAGE ?= nnvk/importers
TESTS ?= tests/importers
SAMPLE ?= 60
SEED ?= 1
mutate:
	[ -d build/mutate/tools ] || $(PYTHON) -m pip install --quiet --target build/mutate/tools coverage==7.17.4
	PYTHONPATH=.:build/mutate/tools nice -n 19 $(PYTHON) tools/mutate.py $(PACKAGE) $(TESTS) --sample $(SAMPLE) --seed $(SEED)

# The pages of docs/ that are generated.
docs:
	PYTHONPATH=. $(PYTHON) tools/operations_doc.py
	PYTHONPATH=. $(PYTHON) tools/models_doc.py
	$(PYTHON) tools/c_api.py --doc

# The README's picture, which shows this machine's device and its times.
picture:
	PYTHONPATH=. $(PYTHON) -m nnvk.cli demo --output docs/images/demo.png

install:
	bash scripts/install.sh

demo:
	bash scripts/demo.sh

clean:
	rm -rf build dist demo-out nnvk/_native*.so nnvk/driver/vulkan/spirv nnvk/include nnvk/lib
