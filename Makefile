# The commands of the project. `make demo` and `make test` set up what they need.
# PYTHON names the interpreter that makes the virtual environment (3.11 or later).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
EXTRAS := train,browser,bench,postgres,minari,ray,llm,docs,dev
PIP := $(BIN)/python -m pip --disable-pip-version-check

PRESSES := SELECT window_id, tick, round(price, 4) AS price, button_id, bet_amount / 1e9 AS bet, sequence_id, \
  sequence_position FROM button_event ORDER BY seq

DEMO = PLAYPROOF_HOME=demo-output/home $(BIN)/playproof

# Where behaviour is exact: the unit tests, the packages they must cover, and the share below which `make coverage` fails.
EXACT := stats store validate operate models evaluate
COVERED := stats store validate operate models evaluate money trash
FLOOR := 80

.DEFAULT_GOAL := help
.PHONY: help setup demo test check coverage bench study torture art docs clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /make \1	/'

setup: $(STAMP) ## make .venv, install everything that demo, tests and benches need, find Chromium
	@scripts/chromium.sh $(BIN)/python

$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "expected Python 3.11 or later as PYTHON=$(PYTHON)" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "installing into $(VENV); the first time takes some minutes"
	$(PIP) install --quiet -c constraints.txt torch==2.13.0
	$(PIP) install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $(STAMP)

demo: setup ## show what the product does, into demo-output/
	@rm -rf demo-output/home
	$(DEMO) perform crash --rounds 4 --speed 4 --seed 36
	$(DEMO) store query "$(PRESSES)"
	$(DEMO) dataset build demo --split train=0.7,validation=0.3 --gap 0
	$(DEMO) dataset show demo
	$(BIN)/playproof crash demo --output demo-output
	$(DEMO) train bc --dataset demo --name clone
	$(DEMO) train ppo --game crash --world drift --name learner --steps 2000000
	$(DEMO) arena run --agents 8 --windows 6 --seed 7
	$(DEMO) arena loop --preset tiny --once
	$(DEMO) validate learner --world drift --rounds 1000 --output demo-output/learner || test $$? -eq 2
	$(DEMO) validate human --world published --rounds 500 --output demo-output/verdict || test $$? -eq 2
	(sleep 40; $(DEMO) bot kill demo --why "the demo is over") & \
	  $(DEMO) bot run take-profit --paper --speed 4 --seed 12 --seconds 55 --account demo; status=$$?; wait; test $$status -eq 2
	$(DEMO) bot audit verify demo
	$(DEMO) bot report demo --output demo-output/bot
	@echo 'next, all of it on one page: $(DEMO) dashboard'

test: setup check ## run the checks and the tests
	$(BIN)/python scripts/run_tests.py

check: setup ## ruff, mypy strict, codespell, and the layers of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell src benchmarks studies examples scripts docs README.md CHANGELOG.md
	$(BIN)/lint-imports

coverage: setup ## measure lines and branches of money, store, statistics, verdict and bots by their unit tests
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(EXACT:%=tests/unit/%) --cov-branch --cov-report term:skip-covered \
	  $(COVERED:%=--cov=playproof.%) --cov-fail-under=$(FLOOR)

bench: setup ## run every benchmark and write docs/results/benchmarks.md
	$(BIN)/python -m benchmarks

study: setup ## run the study of the validator and write docs/results/validator-study.md
	$(BIN)/python -m studies.validator --workers 2 --page docs/results/validator-study.md

torture: setup ## run the tests with large counts
	$(BIN)/python -m pytest -m torture --timeout 0

art: ## make .venv-art with OpenPipe ART, check it against our groups, write docs/results/art.md
	@test -x .venv-art/bin/python || "$(PYTHON)" -m venv .venv-art
	grep -v '^openai==' constraints.txt > .venv-art/constraints.txt
	.venv-art/bin/python -m pip --disable-pip-version-check install --quiet -c .venv-art/constraints.txt torch==2.13.0
	.venv-art/bin/python -m pip --disable-pip-version-check install --quiet -c .venv-art/constraints.txt \
	  -e '.[llm,art,wandb]' openpipe-art==0.5.18 wandb==0.31.0
	.venv-art/bin/python scripts/art_check.py --page docs/results/art.md

docs: setup ## write the commands reference and build the documentation site into site/
	$(BIN)/python -m playproof.cli.reference > docs/reference/commands.md.new
	mv docs/reference/commands.md.new docs/reference/commands.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python scripts/docs_site.py site

clean: ## remove everything that the other commands made
	rm -rf $(VENV) .venv-art build dist site demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks studies scripts examples -name __pycache__ -type d -prune -exec rm -rf {} +
