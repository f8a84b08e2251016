# `make demo` and `make test` are all a stranger needs: each sets up what it needs on a machine
# that has Rust and Python, and does not do it again until something changed.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build
# Looked up by the shell: make remembers what a directory held before the wheel was built.
WHEEL := $$(ls dist/amberlog-*.whl)
CHECKED := $(wildcard python tests benches tools examples)

# The binding is tested from Python; its own test binary would have to link libpython.
CARGO_TESTS := --workspace --exclude amberlog-py
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

RUST := $(shell find rust -type f \( -name '*.rs' -o -name '*.toml' \) -not -path '*/tests/*' -not -path '*/benches/*')
PACKAGE := $(shell find python -type f -not -name '*.pyc' -not -name '*.so')
SOURCES := $(RUST) $(PACKAGE) Cargo.toml Cargo.lock .cargo/config.toml pyproject.toml README.md LICENSE

.PHONY: help demo test test-rust test-python check fmt torture bench recall-quality bench-many bench-peers peers wheel sdist clean

help:
	@echo "make demo         record a session, kill its writer, lose nothing, search it"
	@echo "make test         the tests of the core and of the package"
	@echo "make check        formatting, lints, types, stub, directions of imports"
	@echo "make fmt          format everything"
	@echo "make torture      the long form of the crash and concurrency tests"
	@echo "make bench        the benches, beside stdlib sqlite3"
	@echo "make recall-quality DATA=…  how well sessions are searched, on data of your own"
	@echo "make bench-many   the index over 100,000 sessions: 8 GB of disk, some minutes"
	@echo "make bench-peers  the same, beside the peers"
	@echo "make peers        the tests that need the real peers"
	@echo "make wheel sdist  what is released, into dist/"
	@echo "make clean        remove everything that was built"

demo: $(BUILD)/install.stamp
	$(BIN)/amberlog demo

test: test-rust test-python

test-rust: $(BUILD)/venv.stamp
	cargo test --locked --no-fail-fast $(CARGO_TESTS)

test-python: $(BUILD)/extras.stamp
	$(BIN)/pytest -m "not peers"
	AMBERLOG_BENCH=smoke $(BIN)/pytest benches -m "not peers" --benchmark-disable

check: $(BUILD)/extras.stamp
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --features amberlog-py/extension-module -- -D warnings
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy $(CHECKED)
	cd $(BUILD) && ../$(BIN)/python -m mypy.stubtest amberlog._core
	PYTHONPATH=python $(BIN)/lint-imports
	cargo test --locked -p amberlog-core --test house
	$(BIN)/pytest -q tests/test_house.py

fmt: $(BUILD)/extras.stamp
	cargo fmt --all
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix-only $(CHECKED)

torture: $(BUILD)/extras.stamp
	AMBERLOG_HARNESS=long $(BIN)/pytest -m torture

bench: $(BUILD)/extras.stamp
	cargo bench --locked $(CARGO_TESTS)
	$(BIN)/pytest benches -m "not peers" --benchmark-only

recall-quality: $(BUILD)/extras.stamp
	$(BIN)/python tools/recall_quality.py $(DATA)

bench-many: $(BUILD)/extras.stamp
	AMBERLOG_BENCH=long $(BIN)/pytest benches/test_index.py -m "not peers" --benchmark-only

bench-peers: $(BUILD)/peers.stamp
	$(BIN)/pytest benches -p no:asyncio --benchmark-only
	$(BIN)/python -m benches.compare

peers: $(BUILD)/peers.stamp
	$(BIN)/pytest -m peers

wheel: $(BUILD)/wheel.stamp
	@ls dist/amberlog-*.whl

sdist: $(BUILD)/venv.stamp
	$(BIN)/maturin sdist --out dist

clean:
	rm -rf $(VENV) $(BUILD) dist
	cargo clean

$(BUILD)/venv.stamp:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "maturin>=1.9,<2"
	mkdir -p $(BUILD) && touch $@

$(BUILD)/wheel.stamp: $(BUILD)/venv.stamp $(SOURCES)
	rm -f dist/amberlog-*.whl
	$(BIN)/maturin build --release --interpreter $(BIN)/python --out dist
	touch $@

$(BUILD)/install.stamp: $(BUILD)/wheel.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$(WHEEL)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(WHEEL)"
	touch $@

$(BUILD)/extras.stamp: $(BUILD)/install.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(WHEEL)[test,check]"
	touch $@

$(BUILD)/peers.stamp: $(BUILD)/extras.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(WHEEL)[bench-peers]"
	touch $@
