# Every target installs what it needs: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
# Strict: a package that the service does not know, or a service that does not answer, is a failure and not "no
# vulnerability".
AUDIT := .venv-audit/bin/pip-audit --strict --disable-pip --require-hashes
# The number of test processes. Each has its own Kafka and Spark, and waits for much of its time.
PROCESSES ?= 3

.DEFAULT_GOAL := help
.PHONY: help install demo test scenarios checks pictures docs bench bench-quick bench-page lint format types containers audit check up down lock clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/installed  ## create .venv with the locked versions; the other targets call it

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 13) else "Python 3.11 or 3.12 is needed, this is " + sys.version.split()[0] + ". Remedy: make PYTHON=python3.11 …")'
	@echo "Installing the locked packages into .venv: a few minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## run the main job on a Kafka and a Spark that it starts
	@$(BIN)/eos demo

test: install  ## run the tests on a real Kafka and a real Spark: ten minutes on two cores
	@$(BIN)/eos jars
	@$(BIN)/pytest --numprocesses $(PROCESSES) --dist worksteal --ignore eos_assets_tests/scenarios

scenarios: install  ## run the tests that start servers of their own: UI, secured brokers, Connect, cluster, compose
	@$(BIN)/eos jars
	@$(BIN)/pytest --numprocesses 2 --dist loadscope eos_assets_tests/scenarios

checks: install  ## evaluate every asset check on the servers of `eos up`, as CI would
	@$(BIN)/eos checks

pictures: install  ## take the pictures of the README again, with the Chromium of this machine
	@$(BIN)/eos jars
	@$(BIN)/python -m eos_assets_tests.scenarios.served.pictures

docs: install  ## write the generated parts of docs/architecture.md
	@$(BIN)/python docs/architecture.py

bench: install  ## compare this project with Flink, Kafka Streams and others, and write docs/performance.md: half an hour
	@$(BIN)/python -m benchmarks

bench-quick: install  ## the same with one workload and fewer records: three minutes, nothing is written
	@$(BIN)/python -m benchmarks --quick

bench-page: install  ## write docs/performance.md from the latest results again
	@$(BIN)/python -m benchmarks.page

lint: install  ## check style, format and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

format: install  ## fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## check the types
	$(BIN)/mypy

containers: install  ## check the Dockerfile, and the compose file where docker-compose is installed (required in CI)
	$(BIN)/hadolint docker/Dockerfile
	@if command -v docker-compose > /dev/null; then docker-compose --file docker/compose.yaml config --quiet; \
	else echo "docker-compose is not installed: docker/compose.yaml is not checked."; test -z "$$CI"; fi

audit: .venv-audit/installed  ## look up known vulnerabilities of the locked packages (needs the internet)
	$(AUDIT) --requirement requirements.lock
	$(AUDIT) --requirement docker/requirements.lock

.venv-audit/installed: .ci/audit.txt
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .ci/audit.txt
	@touch $@

check:  ## run everything that CI runs: lint, containers, types, test, scenarios
	@.ci/run

up: install  ## start Kafka and Spark and leave them running
	@$(BIN)/eos up

down: install  ## stop the servers of `make up`
	@$(BIN)/eos down

lock: install  ## pin the versions that pyproject.toml and ivy.xml name (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra image -c requirements.lock pyproject.toml -o docker/requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes .ci/audit.in -o .ci/audit.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes benchmarks/peers/quix.in -o benchmarks/peers/quix.txt
	$(BIN)/python -c 'from eos_assets.platform.jars import write_lock; write_lock()'
	$(BIN)/python -c 'from eos_assets.platform.jars import write_lock; from benchmarks.peers.java import JARS; write_lock(JARS)'

clean:  ## remove .venv and caches, keep .eos
	rm -rf .venv .venv-audit .mypy_cache .ruff_cache .pytest_cache .hypothesis
