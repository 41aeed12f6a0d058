# Verbs of the project; `make` lists them. They write into .venv and
# ${STRANDLINE_CACHE:-~/.cache/strandline}.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.PHONY: help test test-fast test-long lint types sim proto images release requirements demo demo-down push bench bench-kafka analysis-score cluster-up cluster-down

VENV ?= .venv
# PY=/path/to/python uses an existing environment instead of making .venv.
ifdef PY
READY :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

PROTO_SOURCES := $(sort $(wildcard protos/strandline_api/*/*.proto))
PROTO_OUT ?= protos
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-strip-extras --custom-compile-command "make requirements"

##@ Look
help: ## list the verbs
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Check
test: $(READY) ## everything: lint, types, then the tiers fast, processes, pods
	@.ci/tiers $(PY)

test-fast: $(READY) ## the fast tier alone: pure tests, scenarios, schedules, house rules
	@$(PY) -m pytest --tier=fast -q -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

test-long: $(READY) ## the long tier, not part of test: MINUTES of mixed faults under load, from SEED
	@STRANDLINE_MIXTURE_MINUTES="$(MINUTES)" STRANDLINE_MIXTURE_SEED="$(SEED)" $(PY) -m pytest --tier=long -q -s

lint: $(READY) ## style, format and layers
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()' --no-cache --no-logo

types: $(READY) ## mypy, strict
	@$(PY) -m mypy

analysis-score: $(READY) ## how well the analysis finds what truly happened, on a history that is made for it
	@$(PY) -m strandline_cli analysis-score

SEEDS ?= 500
sim: $(READY) ## drive the shipped core and controller under SEEDS seeded schedules
	@$(PY) -m strandline_cli sim --seeds $(SEEDS)

##@ Make
proto: $(READY) ## generate the code of protos/ beside its source
	@PATH="$(dir $(PY)):$$PATH" $(PY) -m grpc_tools.protoc --proto_path=protos \
		--python_out=$(PROTO_OUT) --mypy_out=quiet:$(PROTO_OUT) $(PROTO_SOURCES)

images: ## build the images and save them as archives
	@.ci/machine
	@hack/cluster/install
	@hack/images save

release: $(READY) ## images, charts, digests, bills of materials, and one archive for rooms without a network, in dist/
	@.ci/machine
	@hack/cluster/install
	@PYTHON="$(abspath $(PY))" hack/release

requirements: $(READY) ## pin the packages of each image and of the tests, with hashes
	@for extra in broker operator analysis bench dev; do \
		$(PY) -m uv $(COMPILE) pyproject.toml --extra $$extra -o requirements/$$extra.txt || exit 1; done

##@ Run
demo: $(READY) ## a real cluster, a topic under load, two faults, a verdict; CLUSTER=kind|hack|current ANALYSIS=0
	@CLUSTER="$(CLUSTER)" IMAGES="$(IMAGES)" LOAD="$(LOAD)" ANALYSIS="$(ANALYSIS)" YES="$(YES)" \
		$(PY) -m strandline_cli demo

demo-down: $(READY) ## remove what the demo made
	@$(PY) -m strandline_cli demo --down

push: $(READY) ## build our images with docker and push them to IMAGES=<repository>, for CLUSTER=current
	@IMAGES="$(IMAGES)" $(PY) -m strandline_cli demo --push

RUNS ?= 5
bench: $(READY) ## measure faults RUNS times on the cluster under hack/, then single brokers
	@$(PY) -m strandline_cli bench --runs $(RUNS)
	@$(PY) -m bench.loop_steps
	@$(PY) -m bench.request_steps
	@$(PY) -m bench.fetch_cost
	@$(PY) -m bench.full_broker
	@$(PY) -m bench.hostile_clients
	@$(PY) -m bench.frozen_controller

ROUNDS ?= 5
bench-kafka: $(READY) ## the brokers beside Apache Kafka, both up at once, ROUNDS times: needs Java
	@$(PY) -m bench.compare --rounds $(ROUNDS)

cluster-up: ## start a real Kubernetes on this machine: one control plane, three workers
	@.ci/machine
	@hack/cluster/install
	@hack/cluster/up --workers 3

cluster-down: ## stop that cluster and remove everything it made
	@hack/cluster/down

# --- the environment --------------------------------------------------------------------

$(VENV)/.tools: requirements/dev.txt
	@.ci/machine --for $(MAKECMDGOALS)
	@echo "$(VENV): installing pinned Python packages, one to three minutes"
	@# pip keeps one core busy; meanwhile what a cluster needs is fetched. Its failures are told when it is needed.
	@if .ci/machine --cluster $(MAKECMDGOALS); then hack/cluster/install --downloads >/dev/null 2>&1 & fi; \
		$$(.ci/machine --python) -m venv --clear $(VENV); \
		$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt; \
		wait
	@touch $@

$(VENV)/.ready: $(VENV)/.tools pyproject.toml
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
