# Every target makes the environment it needs from constraints.txt; nothing else has to be set up.
PYTHON ?= python3
BIN := .venv/bin
# The package as it installs, for mypy, which does not follow the folder mapping of pyproject.toml.
TREE := .venv/tree/replica

.PHONY: demo test slow lint bench bench-large docs lock clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

demo: .venv/run  ## solve the phase diagram and draw it into output/
	@mkdir -p output
	@$(BIN)/replica figure phase-diagram -o output --format png --overwrite --quiet >/dev/null
	@echo "picture  output/phase-diagram.png  TM, IDG and ODG errors over the (kappa, rho) plane, with the line rho = kappa"
	@echo "numbers  output/phase-diagram.nc   everything behind it, labelled: xarray.open_dataset reads it"

test: .venv/dev  ## lint, types and the test suite
	@$(MAKE) --no-print-directory lint
	@$(BIN)/pytest -m "not slow"

slow: .venv/dev  ## the scientific checks that take minutes
	@$(BIN)/pytest -m slow

lint: .venv/dev  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@rm -rf $(TREE) && mkdir -p $(TREE)
	@ln -s $(CURDIR)/replica/* $(CURDIR)/cli $(CURDIR)/figures $(CURDIR)/configs $(TREE)
	@cd $(dir $(TREE)) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml -p replica

bench: .venv/dev  ## measure speed as ratios within one run
	@$(BIN)/python -m benchmarks

bench-large: .venv/dev  ## time and memory of one experiment at D = 300 and at D = 500
	@$(BIN)/python -m benchmarks.simulation 300 500

docs: .venv/docs build/figures/made  ## print the equations, draw the figures, build the documentation
	@$(BIN)/python docs/equations.py
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --write-all --quiet -d build/doctrees docs build/docs
	@echo "pages    build/docs/index.html"

build/figures/made: .venv/run $(shell find replica figures configs -name '*.py' -o -name '*.toml')
	@mkdir -p $(@D)
	@$(BIN)/replica figure all --quick -o $(@D) --format png --overwrite --quiet >/dev/null
	@touch $@

lock:  ## pin the dependencies anew (needs uv)
	uv pip compile --universal --python-version 3.11 --all-extras --group build --no-emit-index-url --no-annotate --no-header pyproject.toml -o constraints.txt

clean:  ## remove the environment and everything built
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/python: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "replica needs Python 3.11 or newer; set PYTHON=python3.11, say")'
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools
	@touch $@

# The build runs on the pinned setuptools in .venv, hence no build isolation.
.venv/run: .venv/python pyproject.toml
	@echo "installing into .venv" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e .
	@touch $@

.venv/dev .venv/docs: .venv/run
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e ".[$(@F)]"
	@touch $@
