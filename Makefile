# The first use of any target makes .venv; nothing but Python 3.11 or newer is needed. `make` alone lists the targets.
# The system's own Python comes first: pyenv compiles without the profile of a distribution's, and takes a seventh longer.
SUITS := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(or $(shell for one in /usr/bin/python3 python3; do $$one -c '$(SUITS)' 2>&- && echo $$one && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -I -m pip --disable-pip-version-check
INSTALL := $(BIN)/python tools/install.py
PYTEST := $(BIN)/python -m pytest
DATA ?= data
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test unit long brokers conformance client crash churn torture simulate soak crashpoints external examples lint types audit sbom fuzz bench image site release lock clean tools pipeline demo

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/.runtime ## a broker on 127.0.0.1:9092 that keeps its data in ./data (ARGS="--set key=value" to change it)
	@exec $(BIN)/odradek serve --set listeners=PLAINTEXT://127.0.0.1:9092 --set log.dirs=$(DATA) \
	  --profile dev $(ARGS)

# Each part fetches what it needs when its turn comes: the first answers long before Spark is there. All run if one fails.
test: ## every test, in four parts: unit and long (Python alone), brokers (kcat, Java, Go, Node), pipeline (Spark)
	@failed=; for part in unit long brokers pipeline; do \
	  echo "== make $$part"; $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

unit: $(VENV)/.dev ## the tests that start no broker process and need nothing but Python: run them before a commit
	$(PYTEST) -n auto $(ARGS) -m "not long" --ignore=tests/unit/pipeline tests/unit

long: $(VENV)/.dev ## the rest of those: models that live long, power failures at every moment, budgets
	$(PYTEST) -n auto $(ARGS) -m long --ignore=tests/unit/pipeline tests/unit

brokers: $(VENV)/.dev tools ## the tests that start brokers, stock clients and Kafka's own tools: all but unit and pipeline
	$(PYTEST) -n 3 --dist loadfile $(ARGS) --ignore=tests/unit --ignore=tests/pipeline tests

conformance: $(VENV)/.dev tools ## answers compared with Apache Kafka's
	$(PYTEST) $(ARGS) tests/conformance

client: $(VENV)/.dev tools ## stock clients against a broker over sockets
	$(PYTEST) $(ARGS) tests/client

churn: $(VENV)/.dev tools ## consumer groups of twenty members that join, leave and are killed for a minute
	$(PYTEST) $(ARGS) --torture --churn=20:60 tests/client/test_group_churn.py

crash: $(VENV)/.dev tools ## kill -9, locked data folder, graceful stop
	$(PYTEST) $(ARGS) tests/crash

# Two processes: the logs that unit tests leave open have a thousand descriptors, with which Spark's gateway cannot wait.
pipeline: $(VENV)/.dev build/spark-jars.stamp build/spark-4.1/.done ## the Spark jobs, on local Spark against a broker over sockets
	$(PYTEST) -n 3 --dist loadfile $(ARGS) tests/unit/pipeline; first=$$?; \
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder $(ARGS) tests/pipeline && exit $$first

demo: $(VENV)/.dev $(VENV)/.pipeline ## a year of flights through a broker and Spark into a lake table and a picture
	@$(BIN)/python -m examples.flights $(ARGS)

torture: $(VENV)/.dev build/spark-jars.stamp ## exactly once through many kills of workers and broker; takes minutes
	$(PYTEST) --torture -o timeout=1800 $(ARGS) tests/cluster/test_moving_a_cluster.py tests/cluster/test_own_controller.py tests/cluster/test_streams.py tests/cluster/test_operators_tools.py tests/client/test_share_groups.py tests/client/test_share_clients.py tests/crash/test_share_groups_torture.py tests/client/test_command_line_kafka.py tests/client/test_operators_pages.py tests/client/test_user_interfaces.py tests/client/test_console_accessibility.py tests/client/test_folder_exchange.py tests/client/test_tiered_folder_exchange.py tests/unit/broker/tiering/test_tiered_model.py tests/unit/broker/tiering/test_tiered_cluster_model.py tests/cluster/test_tiered_torture.py tests/client/test_versions_on_one_folder.py tests/client/test_consumer_groups_tool.py tests/client/test_exactly_once.py tests/client/test_failover_of_clients.py tests/crash/test_kill_9_sweep.py tests/cluster/test_replication.py tests/cluster/test_coordinators.py tests/cluster/test_metadata_of_kafka.py tests/crash/test_kill_9.py tests/crash/test_tiered_kill_9.py tests/client/test_kit_snapshots.py tests/client/test_streams_groups.py tests/pipeline/test_cluster.py tests/pipeline/test_replay.py tests/pipeline/test_replay_harm.py tests/pipeline/test_lake_kills.py tests/pipeline/test_lake_upsert_kills.py tests/pipeline/test_lake_registry_kills.py tests/pipeline/test_lake_expiry.py tests/pipeline/test_lake_group.py tests/pipeline/test_lake_partitioning.py tests/pipeline/test_lake_upsert.py tests/pipeline/test_lake_upsert_registry.py tests/pipeline/test_lake_s3.py tests/unit/budgets/test_instructions.py tests/unit/broker/registry/test_model.py tests/crash/test_registry_model.py

fuzz: $(VENV)/.fuzz ## coverage-guided: everything that reads bytes which others made (ARGS="request_bodies --seconds 600")
	$(BIN)/python -m tests.fuzzing $(ARGS)
	$(PYTEST) --fuzz 200 -o timeout=7200 tests/unit/broker/network/test_fuzzed_bytes.py

simulate: $(VENV)/.dev ## lives of simulated clusters under crashes and cuts, for an hour (ARGS="--minutes 600 --first 5000")
	$(BIN)/python -m tests.simulation --minutes 60 $(ARGS)

soak: $(VENV)/.dev ## half an hour of mixed load; memory and descriptors are given back after it
	ODRADEK_SOAK_SECONDS=1800 $(PYTEST) $(ARGS) tests/crash/test_soak.py

crashpoints: $(VENV)/.dev ## a power failure before every single operation of a run; takes minutes
	ODRADEK_CRASH_POINTS=1 $(PYTEST) $(ARGS) tests/unit/storage/test_crash_points.py

examples: $(VENV)/.dev tools ## the tests of the examples and of the kits: Python, Go, Java, Node
	$(PYTEST) $(ARGS) tests/client/test_examples.py

external: $(VENV)/.dev ## aiokafka's own integration tests, from a checkout of aio-libs/aiokafka: AIOKAFKA=path
	$(BIN)/python -m tools.external.aiokafka_suite $(AIOKAFKA) $(ARGS)

pythons: $(VENV)/.dev ## the pytest plugin installed from its wheel under other Pythons: PYTHONS="python3.12 python3.13"
	$(BIN)/python -m tools.plugin.pythons $(PYTHONS)

lint: $(VENV)/.dev ## ruff, ruff format, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(VENV)/.dev $(VENV)/.pipeline ## mypy --strict
	$(BIN)/mypy

audit: $(VENV)/.audit ## known weaknesses of what the broker needs; fails if no advisories can be reached
	$(BIN)/python -m tools.audit

sbom: $(VENV)/.audit ## the bill of materials (CycloneDX) of the wheel's and the image's Python packages: build/odradek.cdx.json
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements-image.txt --pyproject pyproject.toml --output-reproducible -o build/odradek.cdx.json

bench: $(VENV)/.dev ## Odradek and Apache Kafka measured in one run
	$(BIN)/python -m benchmarks.run $(ARGS)

image: $(VENV)/.runtime sbom ## build the container image and try it, without a registry (root; Debian)
	docker/build-image.sh

site: build/site-venv/.done ## the documentation as pages that fetch nothing from the network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build

build/site-venv/.done: requirements-site.txt
	$(PYTHON) -m venv build/site-venv
	build/site-venv/bin/python -I -m pip --disable-pip-version-check install -q --require-hashes -r requirements-site.txt
	@touch $@

release: $(VENV)/.dev sbom ## VERSION=0.2.0: versions, changelog, commit, wheels and bill of materials, up to the upload
	$(BIN)/python -m tools.release $(VERSION)

lock: ## compile the pinned requirements again (needs uv on the PATH)
	uv pip compile pyproject.toml --group build --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements.txt
	uv pip compile pyproject.toml --group build --extra cli --extra registry -c requirements.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-cli.txt
	uv pip compile pyproject.toml --group build --group dev -c requirements-cli.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-dev.txt
	uv pip compile pyproject.toml --group build --all-extras -c requirements-dev.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-image.txt
	uv pip compile --group audit -c requirements-dev.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-audit.txt
	uv pip compile pyproject.toml --group build --group pipeline -c requirements-dev.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-pipeline.txt
	uv pip compile --group spark41 --no-deps --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-spark41.txt
	uv pip compile --group fuzz --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-fuzz.txt
	uv pip compile --group site --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-site.txt
	uv pip compile --group data --no-deps --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements-data.txt

clean: ## remove what was built; the data folder stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artifacts spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The broker, and the command line that is a client of any cluster.
$(VENV)/.runtime: requirements-cli.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Odradek needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@$(INSTALL) -r requirements-cli.txt --require-hashes
	$(PIP) install -q --no-deps --no-build-isolation --editable .
	@touch $@

# The data set's own requirement (pandas) is not wanted: only its files are read.
$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt requirements-data.txt
	@$(INSTALL) -r requirements-dev.txt --require-hashes
	$(PIP) install -q --require-hashes --no-deps --no-build-isolation -r requirements-data.txt
	$(PIP) install -q --no-deps --no-build-isolation --editable pipeline
	@touch $@

$(VENV)/.audit: $(VENV)/.dev requirements-audit.txt
	@$(INSTALL) -r requirements-audit.txt --require-hashes
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev requirements-fuzz.txt
	@$(INSTALL) -r requirements-fuzz.txt --require-hashes
	@touch $@

# PySpark is published as a source distribution alone; pip builds its wheel once, with the setuptools of .dev, and keeps it.
$(VENV)/.pipeline: $(VENV)/.dev requirements-pipeline.txt
	@$(INSTALL) -r requirements-pipeline.txt --require-hashes --no-build-isolation
	@touch $@

# What the tests use beyond Python: kcat and Apache Kafka's jars. A test whose tool is missing skips and says so.
tools: build/tools.stamp

# Spark's jars, fetched by one process: several at once break each other's files. Without them their tests skip and say so.
build/spark-jars.stamp: $(VENV)/.pipeline build/tools.stamp
	@$(BIN)/python -m tests.pipeline.fetch_jars >build/spark-jars.log 2>&1 && touch $@ \
	  || echo "Spark's jars could not be fetched (build/spark-jars.log); tests that need them skip" >&2

# A second PySpark, which shares the other packages of .venv: tests/pipeline/test_other_spark.py puts it before them.
build/spark-4.1/.done: requirements-spark41.txt build/spark-jars.stamp
	@rm -rf $(@D)
	$(PIP) install -q --require-hashes --no-deps --no-build-isolation --target $(@D) -r requirements-spark41.txt
	@PYTHONPATH=$(@D) $(BIN)/python -m tests.pipeline.fetch_jars >build/spark-4.1/fetch.log 2>&1 && touch $@ \
	  || echo "The jars for Spark 4.1 could not be fetched (build/spark-4.1/fetch.log); its test skips" >&2

build/tools.stamp: tests/client/java/pom.xml tests/client/install-tools.sh
	tests/client/install-tools.sh
	@touch $@
