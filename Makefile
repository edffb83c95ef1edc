# Each target does its own set-up from a fresh clone: a virtual environment in .venv with pinned versions,
# made once and again only when pyproject.toml or constraints.txt change. Servers are the tests' own matter.

PYTHON ?= python3
ARGS ?=
JOBS ?= 3
VERSIONS ?= 3.12 3.13
# Servers and tools that are missing are installed from the distribution's packages.
export INSTALL_SERVERS ?= yes

VENV := .venv
BIN := $(VENV)/bin
FOUND := $(shell $(PYTHON) -c 'import sys; print(".".join(map(str, sys.version_info[:3])))' 2>/dev/null)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

# One stamp per Python version, so that another PYTHON makes the environment anew.
BASE := $(VENV)/.base-$(FOUND)
DEV := $(VENV)/.dev-$(FOUND)
DEMO := $(VENV)/.demo-$(FOUND)
BENCH := $(VENV)/.bench-$(FOUND)
DOCS := $(VENV)/.docs-$(FOUND)
AUDIT := $(VENV)/.audit-$(FOUND)

.PHONY: help demo test test-fast battery storm relay-horizon torture sabotage payment-torture held-among-millions kafka-scenario broker-figures figures weigh overhead metrics compare lint types bench docs audit versions first-starts fresh fresh-quick constraints clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         see what it does, in a minute"
	@echo "make test         all tests, on every server this machine can have"
	@echo "make test-fast    the tests that need no server"
	@echo "make battery      the HTTP guard on every server with every framework; a part: ARGS='-k granian', the page: ARGS=--write-docs"
	@echo "make storm        20,000 messages through four relays that are killed again and again"
	@echo "make relay-horizon  a relay while one transaction stays open for six minutes; ARGS='--database mariadb --held producer'"
	@echo "make torture      100,000 messages through RabbitMQ and Kafka, 20,000 through Redis and NATS, with 100 kills each"
	@echo "make sabotage     eight faults put into the library, and whether the torture catches each; five minutes"
	@echo "make payment-torture  2,000 orders charged at a provider that cannot be relied on, with 100 kills; four runs, half an hour"
	@echo "make held-among-millions  how long a list of 100 held keys takes among ten million records; ten minutes"
	@echo "make kafka-scenario  100,000 messages copied and consumed on three Kafka brokers, with kills and bounced brokers; twenty minutes"
	@echo "make figures      what marking costs, also while a million expired marks are purged; three minutes"
	@echo "make broker-figures  what the inbox costs consumers on each broker, with 0 and 1 % failing; ten minutes"
	@echo "make weigh        what a million ids take on Redis and PostgreSQL, beside what is planned; twenty minutes"
	@echo "make overhead     what the HTTP middleware costs, beside the bare app and another library"
	@echo "make metrics      what counting costs a guarded call in memory, where nothing hides it"
	@echo "make compare      how fast this tree is beside a commit, in one run: COMMIT=6c0d3ae"
	@echo "make lint         style, import layers, generated files"
	@echo "make types        mypy"
	@echo "make bench        the measurements, beside other libraries; in a minute: ARGS=--quick"
	@echo "make docs         the documentation, into site/; to look at it while writing: ARGS=serve"
	@echo "make audit        known vulnerabilities of what is pinned; needs the database of pip-audit"
	@echo "make versions     what needs no server, and the stores on real ones, on other Pythons: VERSIONS='3.12 3.13'"
	@echo "make fresh        make demo and make test in a fresh clone on a minimal Debian, in a temporary folder; needs root"
	@echo "make fresh-quick  the same for what CI can wait for: make demo, first starts, the tests that need a tool"
	@echo "make first-starts start every server once, and install it first where it is missing"
	@echo "make constraints  choose the pinned versions anew"
	@echo "make clean        remove what make made"
	@echo
	@echo "PYTHON=python3.12   another interpreter       ARGS='-k redis'   more arguments for the command"
	@echo "REQUIRE_SERVERS=all a test left out fails     REDIS_URL=...     a server you have (POSTGRES_URL, ...)"

# Enough for the demo; the development environment has it all, where there is one.
demo: $(if $(wildcard $(DEV)),$(DEV),$(DEMO))
	@$(BIN)/dupeproof demo $(ARGS)

bench: $(BENCH)
	@$(BIN)/dupeproof bench $(ARGS)

docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet $(or $(ARGS),build --strict)

# Much of a test is waiting, for a lease or a server; JOBS=0 runs them one after the other.
test: $(DEV)
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal $(ARGS)

test-fast: $(DEV)
	@$(BIN)/python -m pytest --no-servers $(ARGS)

# The checks of a cell share its server, so they stay in one process.
battery: $(DEV)
	@$(BIN)/python -m pytest tests/battery/battery_cells.py -p no:randomly --numprocesses $(JOBS) --dist loadgroup --tb=line -q $(ARGS)

storm: $(DEV)
	@OUTBOX_MESSAGES=20000 OUTBOX_KEYS=500 $(BIN)/python -m pytest tests/outbox/test_relay_storm.py -s $(ARGS)

relay-horizon: $(DEV)
	@$(BIN)/python tests/outbox/outbox_horizon.py $(ARGS)

torture: $(DEV)
	@for broker in rabbitmq kafka; do $(BIN)/dupeproof torture --broker $$broker --messages 100000 --kills 100 --out out/$$broker $(ARGS) || exit 1; done
	@for broker in redis nats; do $(BIN)/dupeproof torture --broker $$broker --messages 20000 --kills 100 --out out/$$broker $(ARGS) || exit 1; done

broker-figures: $(DEV)
	@BROKER_MESSAGES=3000 BROKER_ROUNDS=7 $(BIN)/python -m pytest tests/brokers/test_broker_figures.py -q -s -p no:randomly $(ARGS)

sabotage: $(DEV)
	@$(BIN)/python -m pytest tests/torture/test_torture_sabotage.py tests/torture/torture_sabotages.py -q -rA --durations=0 -n 3 $(ARGS)

held-among-millions: $(DEV)
	@$(BIN)/python tests/guards/held_among_millions.py $(ARGS)

payment-torture: $(DEV)
	@$(BIN)/python tests/docs/payment_story.py $(ARGS)

kafka-scenario: $(DEV)
	@$(BIN)/python tests/brokers/brokers_kafka_scenario.py $(ARGS)

figures: $(DEV)
	@INBOX_EXPIRED=1000000 INBOX_SECONDS=3 INBOX_MARKED=1000 INBOX_ROUNDS=7 \
	  $(BIN)/python -m pytest tests/inbox/test_inbox_figures.py -q -rP $(ARGS)

weigh: $(DEV)
	@PLAN_IDS=1000000 $(BIN)/python -m pytest tests/plan -k takes_what_is_planned -q -rP --timeout 1800 $(ARGS)

overhead: $(DEV) $(BENCH)
	@$(BIN)/python tests/http/overhead.py $(ARGS)

metrics: $(DEV)
	@$(BIN)/python -m pytest tests/metrics/test_metrics_cost.py -q -rP $(ARGS)

compare: $(DEV)
	@$(BIN)/python tools/compare.py $(COMMIT) $(ARGS)

lint: $(DEV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/twins.py --check
	@$(BIN)/python tools/diagrams.py --check

types: $(DEV)
	@$(BIN)/mypy

# Strictly: where its database cannot be reached pip-audit would skip everything, and call that clean.
audit: $(AUDIT)
	@$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt $(ARGS)

# An environment for each version, beside the usual one; what needs no server, and the stores on real ones.
versions:
	@for version in $(VERSIONS); do \
	  echo "== Python $$version"; \
	  $(MAKE) --no-print-directory test-fast PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	  $(MAKE) --no-print-directory test PYTHON=python$$version VENV=.venv-$$version ARGS=tests/stores JOBS=2 || exit 1; \
	done

first-starts: $(DEV)
	@$(BIN)/python tools/first_starts.py

# With this machine's Python and nothing of ours: the environment is made over there.
fresh:
	@$(PYTHON) tools/fresh.py $(ARGS)

fresh-quick:
	@$(PYTHON) tools/fresh.py --quick $(ARGS)

constraints: $(BASE)
	@$(BIN)/python tools/pin.py

clean:
	@rm -rf $(VENV) .venv-3.* build dist out site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src lab tests tools -name __pycache__ -prune -exec rm -rf {} +

$(BASE): constraints.txt
	@test -n "$(FOUND)" || { echo "There is no '$(PYTHON)' here. Choose one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dupeproof needs Python 3.11 or newer; '$(PYTHON)' is $(FOUND). Choose another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@test -e $@ || { echo "Making $(VENV) with Python $(FOUND)"; $(PYTHON) -m venv --clear $(VENV); }
	@$(PIP) --upgrade --constraint constraints.txt pip
	@touch $@

$(DEV): $(BASE) pyproject.toml lab/pyproject.toml constraints.txt
	@echo "Installing dupeproof and its development tools into $(VENV)"
	@$(PIP) --constraint constraints.txt --build-constraint constraints.txt --editable . --editable lab --group dev
	@touch $@

$(DEMO): $(BASE) pyproject.toml lab/pyproject.toml constraints.txt
	@echo "Installing dupeproof into $(VENV)"
	@$(PIP) --constraint constraints.txt --build-constraint constraints.txt --editable '.[cli]' --editable lab
	@touch $@

$(BENCH): $(BASE) pyproject.toml lab/pyproject.toml constraints.txt
	@echo "Installing dupeproof and the libraries it is compared with into $(VENV)"
	@$(PIP) --constraint constraints.txt --build-constraint constraints.txt --editable '.[all]' --editable lab --group peers
	@touch $@

$(DOCS): $(BASE) pyproject.toml lab/pyproject.toml constraints.txt
	@echo "Installing dupeproof and what makes its documentation into $(VENV)"
	@$(PIP) --constraint constraints.txt --build-constraint constraints.txt --editable '.[all]' --editable lab --group docs
	@touch $@

$(AUDIT): $(BASE) pyproject.toml constraints.txt
	@$(PIP) --constraint constraints.txt --group audit
	@touch $@
