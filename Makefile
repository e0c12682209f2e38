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

# What `make quick` compares the working tree with.
BASE ?= HEAD

.PHONY: build help shaders native quick test validate sanitize wheel wheels check mutate docs site picture install demo clean

build: native shaders ## build the extension module and the shaders into the source tree (the default)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

native: ## build the extension module and the C library into the source tree
	cmake -S . -B $(BUILD) -DPython_EXECUTABLE="$$($(PYTHON) -c 'import sys; print(sys.executable)')" \
	    -DNNVK_BUILD_SHADERS=OFF $(if $(KOMPUTE_SOURCE_DIR),-DKOMPUTE_SOURCE_DIR=$(KOMPUTE_SOURCE_DIR)) \
	    $(if $(SANITIZE),-DNNVK_SANITIZE=$(SANITIZE) -DCMAKE_BUILD_TYPE=RelWithDebInfo)
	cmake --build $(BUILD) --parallel
	cmake --install $(BUILD) --prefix .

shaders: ## compile the shaders that have changed
	$(PYTHON) tools/compile_shaders.py

quick: ## lint, types and the tests that a change can reach, within a minute (BASE=HEAD)
	$(PYTHON) tools/quick.py --base $(BASE)

test: ## run everything that CI runs, on the installed package
	bash scripts/test.sh --all

# Any message of the validation layer is a failure.
validate: ## run the Vulkan driver's tests and the conformance vectors under the validation layer
	NNVK_VALIDATION=1 PYTHONPATH=. $(PYTHON) -m pytest -n 2 -q tests/driver/vulkan tests/conformance/test_suite.py \
	    -k "not nnapi-reference"
	NNVK_VALIDATION=1 NNVK_DEVICE_PROFILE=mobile-min PYTHONPATH=. $(PYTHON) -m pytest -n 2 -q \
	    tests/conformance/test_suite.py -k "not nnapi-reference"

# `make native` brings the plain module back.
sanitize: ## run the extension module's tests under AddressSanitizer
	$(MAKE) native SANITIZE=address
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(CURDIR) $(PYTHON) -m pytest -q tests/native

wheel: ## build a wheel for this machine, in dist/
	bash scripts/wheels.sh dist native

wheels: ## build all wheels, in dist/
	bash scripts/wheels.sh dist

check: ## lint, types and layers of the whole source tree, without tests
	$(BIN)ruff check .
	$(BIN)mypy
	$(BIN)lint-imports --no-logo
	$(PYTHON) tools/terms.py
	$(PYTHON) tools/lines.py

# The package that `make mutate` changes, and the tests that it runs.
PACKAGE ?= nnvk/importers
TESTS ?= tests/importers
SAMPLE ?= 60
SEED ?= 1
mutate: ## change a random sample of a package and say which changes no test notices
	[ -d build/mutate/tools ] || $(PYTHON) -m pip install --quiet --target build/mutate/tools coverage==7.17.4
	PYTHONPATH=.:build/mutate/tools nice -n 19 $(PYTHON) tools/mutate.py $(PACKAGE) $(TESTS) --sample $(SAMPLE) --seed $(SEED)

docs: ## write the generated pages and pictures of docs/
	PYTHONPATH=. $(PYTHON) tools/operations_doc.py
	PYTHONPATH=. $(PYTHON) tools/models_doc.py
	PYTHONPATH=. $(PYTHON) tools/layers_doc.py
	PYTHONPATH=.:tools $(PYTHON) benchmarks/unchanged_programs.py
	$(PYTHON) tools/c_api.py --doc
	PYTHONPATH=. $(PYTHON) tools/speed_picture.py nvidia-h100-80gb-hbm3 docs/images/speed-nvidia-h100.svg
	PYTHONPATH=. $(PYTHON) tools/speed_picture.py llvmpipe docs/images/speed-llvmpipe.svg
	PYTHONPATH=. $(PYTHON) tools/compilers_picture.py docs/images/compilers.svg

site: ## build the site of docs/ into build/site
	$(PYTHON) -m mkdocs build --strict

# The picture shows this machine's device and its times.
picture: ## draw the picture of the demo
	PYTHONPATH=. $(PYTHON) -m nnvk.cli demo --out docs/images/demo.png

install: ## install nnvk into .venv
	bash scripts/install.sh

demo: ## run the demo
	bash scripts/demo.sh

clean: ## remove what was built
	rm -rf build dist demo-out nnvk/_native*.so nnvk/driver/vulkan/spirv nnvk/include nnvk/lib
