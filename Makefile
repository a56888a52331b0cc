# Firn. `make help` lists the targets; each does the set-up it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export AWS_EC2_METADATA_DISABLED := true
export SAM_CLI_TELEMETRY := 0

.DEFAULT_GOAL := help
.PHONY: help setup read-matrix setup-sam setup-checkov setup-localstack setup-tests setup-engines setup-trino setup-servers setup-clouds setup-versitygw setup-bench setup-kafka demo example-postgres example-mysql example-kafka example-backfill up docs setup-docs deploy-local undeploy-local test test-unit test-property test-model test-stack test-spark test-e2e test-servers mutants soak check check-code check-functions sam templates cfn-lint checkov hadolint package wheel upload bench lock clean console-assets console-lighthouse

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

setup:  ## install everything into .venv and .cache (a no-op the second time)
	@$(PYTHON) infra/setup/setup.py

setup-sam:
	@$(PYTHON) infra/setup/setup.py --sam

setup-checkov:
	@$(PYTHON) infra/setup/setup.py --checkov

# CATALOG=hive and STORAGE=azure, gcs, versitygw need servers, which are fetched or built first. Every pair of CATALOG and
# STORAGE runs; to a Nessie nothing is committed, which CATALOG=nessie says (docs/catalogs.md).
demo: setup $(if $(filter hive,$(CATALOG))$(filter azure gcs,$(STORAGE)),setup-servers) $(if $(filter versitygw,$(STORAGE)),setup-versitygw)  ## 55,462 real change events into Iceberg tables, compared with PostgreSQL (KEEP=1 leaves the stack up; CATALOG=sql, rest, hive; STORAGE=s3, file, versitygw, azure, gcs)
	@$(if $(CATALOG)$(filter azure gcs,$(STORAGE)),$(BIN)/python -m tests.demo $(if $(CATALOG),--catalog $(CATALOG),) $(if $(STORAGE),--storage $(STORAGE),) $(if $(KEEP),--keep,),$(BIN)/firn demo $(if $(KEEP),--keep,) $(if $(STORAGE),--storage $(STORAGE),))

deploy-local: setup-localstack  ## a real deployment: LocalStack, sam deploy, the demo's events through it (PORT=4566)
	@$(BIN)/python -m examples.deployed $(if $(PORT),--port $(PORT),) $(if $(UPDATE),--update-while-posting,)

undeploy-local: setup  ## stop that deployment and remove what it made
	@$(BIN)/python -m firn_deploy down

# ARGS="--chaos --signed --sink sqs …": examples/postgres-debezium/README.md. What the machine lacks is said (exit code 3).
example-postgres: setup  ## PostgreSQL -> Debezium Server -> Firn under pgbench, compared (ARGS=…; needs Java 21, PostgreSQL, Maven)
	@$(BIN)/python -m examples.sources.postgres_to_firn $(ARGS)

# ARGS="--chaos --transactions 6000 …": examples/mysql-debezium/README.md.
example-mysql: setup  ## MariaDB -> Debezium Server -> Firn with rows of every type, compared (ARGS=…; needs Java 21, MariaDB, Maven)
	@$(BIN)/python -m examples.sources.mariadb_to_firn $(ARGS)

example-backfill: setup  ## a PostgreSQL table filled while pgbench writes in it and the job is killed, compared (ARGS="--rows 10000000 --then rebuild")
	@$(BIN)/python -m examples.backfill $(ARGS)

setup-kafka:
	@$(PYTHON) infra/setup/setup.py --kafka

example-kafka: setup-kafka  ## PostgreSQL -> Debezium Server -> Kafka -> Firn, with kills and more partitions, compared (ARGS=…)
	@$(BIN)/python -m examples.sources.kafka_to_firn $(ARGS)

up: setup  ## the embedded stack in the foreground (the same as .venv/bin/firn up)
	@$(BIN)/firn up

setup-docs:
	@$(PYTHON) infra/setup/setup.py --docs

docs: setup-docs  ## the documentation site into build/site/html, its links checked
	@PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m infra.site

test: setup-tests  ## all tests
	@$(BIN)/python -m pytest -n 4 --dist loadscope -o console_output_style=classic tests/unit tests/property tests/model tests/faults tests/attacks tests/mutants \
	  tests/integration tests/e2e

test-unit: setup  ## pure and fast: no network, no JVM
	@$(BIN)/python -m pytest tests/unit

test-property: setup  ## hypothesis against the executable specification
	@$(BIN)/python -m pytest tests/property

test-model: setup  ## random interleavings of everything, and every call failed once and for ever
	@$(BIN)/python -m pytest tests/model tests/faults

test-stack: setup  ## the embedded stack over real HTTP
	@$(BIN)/python -m pytest tests/integration/stack

test-spark: setup  ## the commit job with real Spark and Iceberg
	@$(BIN)/python -m pytest tests/integration/spark

test-e2e: setup-tests  ## through every part: HTTP and SQS in, tables out
	@$(BIN)/python -m pytest tests/e2e

test-servers: setup-servers setup-versitygw  ## tests against real servers that `make setup` does not fetch: a Hive Metastore, a Nessie, Azurite, fake-gcs-server, versitygw (needs Maven, PostgreSQL, Java 21; npm, Go)
	@$(BIN)/python -m pytest tests/integration/catalogs/test_metastore.py tests/integration/catalogs/test_nessie.py tests/integration/catalogs/test_contract.py \
	  tests/integration/catalogs/test_hive_locks.py tests/integration/spark/test_catalogs.py tests/integration/spark/test_hive_commits.py tests/integration/spark/test_hive_kills.py \
	  tests/integration/spark/test_twin_committers.py tests/integration/spark/test_lake_contract.py tests/integration/storages tests/integration/stack/test_files_in_s3.py \
	  tests/integration/spark/test_storages.py -k "hive or metastore or nessie or versitygw"
	@$(BIN)/python -m pytest tests/integration/clouds tests/integration/spark/test_clouds.py
	@FIRN_PAIRS=1 $(BIN)/python -m pytest tests/integration/catalogs/test_demo_pairs.py
	@# Of the engines of others those that `make setup-engines` and `make setup-trino` have fetched.
	@FIRN_READ_MATRIX=all $(BIN)/python -m pytest tests/integration/spark/test_read_matrix.py tests/integration/spark/test_engines.py tests/integration/spark/test_trino.py

mutants: setup  ## seeded mistakes: each must be found by the test that names it, with Spark and Iceberg too
	@FIRN_MUTANTS=all $(BIN)/python -m pytest tests/mutants

# What holds in Iceberg's format 2 and is shown in 3 too (FIRN_FORMAT=3).
IN_FORMAT_3 = $(addprefix tests/integration/spark/test_,$(addsuffix .py,corpus emitters generations mariadb pgbench random_histories retype shuffled truncates))

# All parts run, whatever the first one says. FIRN_SEED=… runs both with that seed again.
soak: setup-servers setup-versitygw  ## hours of random histories, faults and real kills; prints the seeds that replay them
	@seed=$${FIRN_SEED:-$$RANDOM}; echo "FIRN_SEED=$$seed"; failed=0; \
	export FIRN_SOAK=1 FIRN_SEED=$$seed; \
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest --hypothesis-seed=$$seed tests/property tests/model tests/faults || failed=1; \
	$(BIN)/python -m pytest -rP tests/unit tests/attacks tests/mutants tests/integration tests/e2e || failed=1; \
	FIRN_FORMAT=3 $(BIN)/python -m pytest $(IN_FORMAT_3) || failed=1; \
	echo "FIRN_SEED=$$seed"; exit $$failed

# Side by side, and all of them, whatever the first one says; BESIDE=docs: and the documentation with them. Import times
# are taken afterwards: a second core that is busy lengthens them.
check: setup-sam setup-checkov  ## ruff, mypy --strict, import rules, sam validate and build, rules for templates, and the functions' sizes, import times and systems
	@failed=0; \
	$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target check-code templates $(BESIDE) || failed=1; \
	$(MAKE) --no-print-directory check-functions BUILT=1 || failed=1; exit $$failed

check-code:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

check-functions: $(if $(BUILT),,sam)
	@$(BIN)/python -m infra.package --functions-only

# The built template, because Checkov knows no SAM short forms; a rule that is left out has its reason in checkov.yaml.
templates: cfn-lint checkov hadolint  ## cfn-lint and Checkov on all templates, hadolint on the Dockerfile

# In all regions: not every one has function URLs.
cfn-lint: sam
	@.venv-sam/bin/cfn-lint --regions ALL_REGIONS -- .aws-sam/build/template.yaml infra/monitoring.yaml

checkov: sam setup-checkov
	@.venv-checkov/bin/checkov --config-file infra/setup/checkov.yaml -f .aws-sam/build/template.yaml -f infra/monitoring.yaml

hadolint: setup-checkov
	@.venv-checkov/bin/hadolint infra/container/Dockerfile

# What Python left beside the sources makes others of them, and the tests would build all again (tests/e2e/conftest.py).
sam: setup-sam  ## sam validate --lint and sam build
	@PATH="$(CURDIR)/.venv-runtime/bin:$$PATH" .venv-sam/bin/sam validate --lint
	@find functions layers -name __pycache__ -prune -exec rm -rf {} +
	@PATH="$(CURDIR)/.venv-runtime/bin:$$PATH" .venv-sam/bin/sam build --cached

package: sam $(if $(CLOUDS),setup-clouds)  ## sizes, import times and what layers, functions and the job need of Python and glibc; the job, and a list of what others made, into build/package (CLOUDS=azure,google: with their jars)
	@$(BIN)/python -m infra.package $(if $(CLOUDS),--clouds $(CLOUDS),)

upload:  ## put the packaged job into a deployed stack's staging bucket (STACK=firn-dev)
	@$(BIN)/python -m infra.package upload --stack $(or $(STACK),firn-dev)

wheel: setup  ## the wheel and the sdist of firn-cdc into dist
	@$(BIN)/python -m infra.package.distribution

setup-localstack:
	@$(PYTHON) infra/setup/setup.py --sam --localstack

setup-tests:
	@$(PYTHON) infra/setup/setup.py --tests

# What others made of the console's pages: bundled from infra/console/package-lock.json, and measured there.
console-assets:  ## bundle the console's third-party parts again (needs Node.js and npm)
	@cd infra/console && npm ci --no-fund --no-audit --ignore-scripts && node build.mjs

console-lighthouse: setup-tests  ## the console's pages by Lighthouse, medians of 5 (needs Node.js, npm and Chromium)
	@cd infra/console/lighthouse && npm ci --no-fund --no-audit --ignore-scripts --silent
	@$(BIN)/python -m tests.integration.console.quickness $(ARGS)

setup-engines:
	@$(PYTHON) infra/setup/setup.py --engines

# Which engine sees which type: read with all that can be had here, and written into docs/types.md with versions and day.
read-matrix: setup-engines setup-trino  ## the table of engines and types in docs/types.md, by reading (needs Java 24, Maven)
	@FIRN_READ_MATRIX=write $(BIN)/python -m pytest -q tests/integration/spark/test_read_matrix.py

setup-trino:
	@$(PYTHON) infra/setup/setup.py --trino

setup-servers:
	@$(PYTHON) infra/setup/setup.py --servers

setup-clouds:
	@$(PYTHON) infra/setup/setup.py --clouds

setup-versitygw:
	@$(PYTHON) infra/setup/setup.py --versitygw

setup-bench:
	@$(PYTHON) infra/setup/setup.py --bench

bench: setup-bench  ## all benchmarks into docs/benchmarks.md (SUITE=commit for one, QUICK=1 for a smoke test; hours)
	@PYTHONPATH=layers/core/python .venv-bench/bin/python -m benchmarks $(if $(QUICK),--quick,) $(SUITE)

COMPILE = $(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host \
  --no-emit-find-links --strip-extras --allow-unsafe --no-header

# All locks of Python libraries but LocalStack's and the runtime's, which say in their .in files what they need besides.
# Versions stay as they are where they still fit; UPGRADE=1 takes the newest.
lock: setup  ## pin again: what pyproject.toml asks for, the layers, the tools of infra/setup (UPGRADE=1)
	@$(COMPILE) $(if $(UPGRADE),--upgrade,) --all-extras --output-file requirements.lock pyproject.toml
	@$(BIN)/python -m infra.package lock
	@# `all` names the project's own extras: so it is in its own lock, and is taken out of it
	@$(COMPILE) --extra all --build-deps-for wheel --constraint requirements.lock \
	  --output-file infra/container/requirements.lock pyproject.toml
	@sed -i.old -e '/^# WARNING: pip/,/^# Consider/d' -e '/^firn-cdc @ /,/^    # via/d' infra/container/requirements.lock
	@rm infra/container/requirements.lock.old
	@for name in sam checkov bench duckdb engines browser docs; do \
	  $(COMPILE) $(if $(UPGRADE),--upgrade,) --output-file infra/setup/$$name.lock infra/setup/$$name.in || exit 1; done

clean:  ## remove what was built, keep the environment
	@rm -rf build dist .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis
