# Everything a person or CI runs. Each target makes its own .venv when it is missing or outdated.
.DEFAULT_GOAL := help
SHELL := /bin/sh

ifndef PYTHON
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
endif
VENV := .venv
BIN := $(VENV)/bin
TINY_VENV := .venv-tiny
WHEEL_VENV := .venv-wheel
LITELLM_VENV := .venv-litellm
LITELLM := litellm[proxy]==1.108.7
RECONCILER_HOME ?= $(CURDIR)/.reconciler
export RECONCILER_HOME
comma := ,
# The tests start thousands of processes: none is to compile the sources anew.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
# Twice the cores that are expected: tests of processes wait as long as they compute.
WORKERS ?= 4
# Whole clusters wait far more than they compute.
CLUSTER_WORKERS ?= 5
SIDE_BY_SIDE = -q --dist loadfile --no-loadscope-reorder

.PHONY: ci-workflow forms help quickstart wheel test test-ids test-all nightly check check-types check-others compiled first-tier fuzz faults fuzz-faults chaos soak classes clients open-webui schema-fuzz bench bench-peers mutants mutants-generated schemas screenshots tiny clean

help: ## show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

quickstart: $(VENV)/runtime ## two ranks and an endpoint on this machine; ONCE=1: ask one question and end
	@$(BIN)/reconciler quickstart $(if $(ONCE),--once)

test: $(VENV)/dev ## every check and the first tier of tests: what each change runs, about ten minutes on two cores
	@$(MAKE) --no-print-directory -j 2 check-others compiled
	@$(MAKE) --no-print-directory -j 2 check-types first-tier

# Once, for pytest's processes would each do it.
compiled:
	@$(PYTEST) --collect-only -qq >/dev/null 2>&1 || true

# Tests of processes wait as long as they compute, so that types are checked meanwhile.
first-tier:
	RECONCILER_EXAMPLES=20 $(PYTEST) $(SIDE_BY_SIDE) -n $(WORKERS) -m "not second_tier and not nightly"

test-ids: $(VENV)/dev ## tests whose ids are in a file, such as those that make test left out: IDS=file
	RECONCILER_EXAMPLES=20 $(PYTEST) $(SIDE_BY_SIDE) -n $(WORKERS) @$(IDS)

test-all: $(VENV)/dev ## the second tier, what else gates a change: whole clusters, three hosts, documents; after make test
	$(BIN)/python -m tests.runner.markup.collection
	$(PYTEST) $(SIDE_BY_SIDE) -n $(CLUSTER_WORKERS) -m "(second_tier or hypothesis) and not nightly"

nightly: $(VENV)/dev ## what runs for hours: fuzz, every fault, every class, chaos, a soak, planted bugs, tests of those tools
	$(PYTEST) $(SIDE_BY_SIDE) -n $(WORKERS) -m nightly
	@$(MAKE) --no-print-directory mutants GROUP=all
	@$(MAKE) --no-print-directory mutants-generated SEED=$$(date +%j)
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory faults ALL=1
	@$(MAKE) --no-print-directory fuzz-faults SEEDS=20000
	@$(MAKE) --no-print-directory classes
	@$(MAKE) --no-print-directory schema-fuzz
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory soak
	@$(MAKE) --no-print-directory clients NEWEST=1
	@$(MAKE) --no-print-directory open-webui

check: $(VENV)/dev ## style, types, import contracts, schemas up to date
	@$(MAKE) --no-print-directory -j 2 check-types check-others

# Types take as long as all others, and one core.
check-types:
	$(BIN)/mypy

check-others:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m reconciler.source.write_schemas schemas --check
	$(BIN)/python -m reconciler.cli.reference docs/cli.md --check
	$(BIN)/python -m reconciler.cli.answer_fields docs/api.md --check
	$(BIN)/python -m reconciler.cli.manual reconciler/shipped/share --check
	$(BIN)/python -m reconciler.inventory.examination.script examples/examine-mac.sh --check

wheel: $(WHEEL_VENV)/ready ## build dist/mlx_reconciler-*.whl, with all that a machine without a clone needs: seconds
	@$(WHEEL_VENV)/bin/python -m hatchling build -t wheel -d dist

bench: $(VENV)/dev ## how fast it is, beside a peer: 12 minutes; ONLY=decode for one, QUICK=1 to try
	@$(BIN)/python -m tests.bench $(if $(ONLY),--only "$(ONLY)") $(if $(QUICK),--quick)

bench-peers: $(LITELLM_VENV)/ready ## install LiteLLM, for make bench to measure beside the gateway; nginx is the system's

fuzz: $(VENV)/dev ## spoiled manifests, requests and tools' outputs, and histories for every template, 20,000 of each (FUZZ=n for another number)
	RECONCILER_FUZZ_EXAMPLES=$(or $(FUZZ),20000) $(BIN)/python -m pytest tests/source tests/gateway tests/inventory/probes tests/properties/test_histories.py -k "mutated or drawn" \
		--timeout=7200 --durations=5

mutants: $(VENV)/dev ## plant bugs in what heals, one at a time: which test catches each? (GROUP=all, ONLY=epoch)
	@$(BIN)/python -m tests.mutants --group $(or $(GROUP),healing) $(if $(ONLY),--only "$(ONLY)") \
		$(if $(SIMULATED),--simulated)

mutants-generated: $(VENV)/dev ## bugs that rules make, drawn at random: which survive? (SAMPLE=300, SEED=1, ROOMS=planning,store)
	@$(BIN)/python -m tests.mutants --generated --sample $(or $(SAMPLE),300) --seed $(or $(SEED),1) \
		$(if $(ROOMS),--rooms "$(ROOMS)")

faults: $(VENV)/dev ## every fault at every effect of 23 scenarios, simulated (ALL=1: of all; ONLY=hang,drain for some)
	@$(BIN)/python -m tests.simulation faults $(if $(ONLY),--only "$(ONLY)") $(if $(ALL),--all)

fuzz-faults: $(VENV)/dev ## random schedules of many faults, some over days, simulated (SEEDS=n, FIRST=n)
	@$(BIN)/python -m tests.simulation fuzz --seeds $(or $(SEEDS),2000) --first $(or $(FIRST),1)
	@$(BIN)/python -m tests.simulation fuzz --only jobs --seeds $(or $(SEEDS),2000) --first $(or $(FIRST),1)
	@$(BIN)/python -m tests.simulation fuzz --only gateways --seeds $(or $(SEEDS),2000) --first $(or $(FIRST),1)

chaos: $(VENV)/dev ## four emulated Macs under load, broken at random (MINUTES=n, SEED=n)
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

soak: $(VENV)/dev ## 16 agents' conversations on two ranks: does memory stay flat? (HOURS=2, or MINUTES=n; SEED=n)
	@$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES),--hours $(or $(HOURS),2)) $(if $(SEED),--seed $(SEED))

classes: $(VENV)/dev ## every class of faults on three emulated Macs, as people rehearse it (ONLY=C9)
	RECONCILER_CLASSES=all $(BIN)/python -m pytest tests/e2e/emulated_macs/test_classes.py -v \
		$(if $(ONLY),-k "[$(ONLY)]")

forms: $(VENV)/dev ## 2,000 answers and 2,000 calls of random schemas from two ranks: ten minutes (FORMS=n for another number)
	RECONCILER_FORMS=$(or $(FORMS),2000) $(BIN)/python -m pytest tests/runner/forms -s --timeout=7200

ci-workflow: $(VENV)/dev ## the workflow of reconciler ci init, step by step as a forge's runner: four minutes
	@$(PYTEST) tests/e2e/test_ci_workflow.py -n 0 -v -s

clients: $(VENV)/dev ## SDKs and coding agents from PyPI and npm against two ranks: five minutes, the first time ten (ONLY=codex,litellm; KEYS=1: libraries, with keys and HTTPS; NEWEST=1: the newest versions too)
	@$(BIN)/python -m tests.clients $(if $(ONLY),--only "$(ONLY)") $(if $(KEYS),--keys) $(if $(NEWEST),--newest)

open-webui: $(VENV)/dev ## Open WebUI from PyPI against two ranks, the pinned version and the newest: it installs gigabytes
	@$(BIN)/python -m tests.clients --webui --newest

schema-fuzz: $(VENV)/dev ## requests and answers as OpenAI's and Anthropic's published schemas have them (EXAMPLES=n)
	@$(BIN)/python -m tests.clients.schemas $(if $(EXAMPLES),--examples $(EXAMPLES))

schemas: $(VENV)/dev ## write anew what is generated: schemas/, docs/cli.md, reconciler/shipped/share, examples/examine-mac.sh
	$(BIN)/python -m reconciler.source.write_schemas schemas
	$(BIN)/python -m reconciler.cli.reference docs/cli.md
	$(BIN)/python -m reconciler.cli.answer_fields docs/api.md
	$(BIN)/python -m reconciler.cli.manual reconciler/shipped/share
	$(BIN)/python -m reconciler.inventory.examination.script examples/examine-mac.sh

screenshots: $(VENV)/dev ## pictures of the console for README.md and docs/console.md, of four emulated Macs: needs Chromium (ALL=folder: of every page, to look at)
	@$(BIN)/python -m tests.console.browser.screenshots $(ALL)

tiny: $(TINY_VENV)/ready ## train the tiny model anew (PyTorch on the CPU, up to 30 minutes)
	$(TINY_VENV)/bin/python examples/models/training/train.py --out examples/models/tiny

clean: ## remove the environments; the quickstart's state stays
	rm -rf $(VENV) $(WHEEL_VENV) $(TINY_VENV) $(LITELLM_VENV)

$(VENV)/runtime: pyproject.toml constraints.txt
	@$(call install,$(VENV),-e '.[runtime]')
	@touch $@

$(VENV)/dev: pyproject.toml constraints.txt
	@$(call install,$(VENV),-e '.[runtime$(comma)dev]')
	@touch $(VENV)/runtime $@

$(WHEEL_VENV)/ready: constraints.txt
	@$(call install,$(WHEEL_VENV),hatchling)
	@touch $@

$(TINY_VENV)/ready: examples/models/training/requirements.txt
	@$(call install,$(TINY_VENV),-r examples/models/training/requirements.txt)
	@touch $@

# It has requirements of its own, which are not those of constraints.txt.
$(LITELLM_VENV)/ready:
	@test -x $(LITELLM_VENV)/bin/python || "$(PYTHON)" -m venv $(LITELLM_VENV)
	@$(LITELLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$(LITELLM)"
	@touch $@

# $(1) the environment, $(2) what goes into it. uv installs it, which is many times faster than pip; where it cannot, pip does,
# and says why not if it cannot either. uv is told the index that pip is set to.
define install
	test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Python 3.11 or newer is needed; install one, or say: make $@ PYTHON=/path/to/python3" >&2; \
		exit 1; }; \
	echo "installing into $(1) with $(PYTHON) (once, a minute or two) ..."; \
	export UV_SYSTEM_CERTS=1; uv=$$(command -v uv); \
	test -x "$(1)/bin/python" || { [ -n "$$uv" ] && "$$uv" venv --quiet --seed --python "$(PYTHON)" "$(1)" 2>/dev/null; } \
		|| "$(PYTHON)" -m venv --clear "$(1)" || exit 1; \
	pip="$(1)/bin/python -m pip --disable-pip-version-check"; \
	[ -n "$$uv" ] || { $$pip install --quiet -c constraints.txt uv 2>/dev/null && uv="$(1)/bin/uv"; }; \
	index=$$($$pip config get global.index-url 2>/dev/null); \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$$index}"; fi; \
	{ [ -n "$$uv" ] && "$$uv" pip install --quiet --python "$(1)/bin/python" -c constraints.txt $(2) 2>/dev/null; } \
		|| $$pip install --quiet -c constraints.txt $(2)
endef
