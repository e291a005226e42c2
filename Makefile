# Everything a newcomer needs: `make demo` and `make test`. Both install what they need into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PAGES := make_docs cli_docs make_template_docs

.PHONY: help demo test lint types bench docs examples data oracle test-controlplane wheel system clean

help: ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

$(STAMP): pyproject.toml tools/setup.sh
	@PYTHON="$(PYTHON)" sh tools/setup.sh "$(VENV)"
	@touch $(STAMP)

demo: $(STAMP) system ## make ticket.md and ticket.pdf from the example cluster
	@$(BIN)/changegen ticket examples/upgrade-1.37/before --profile kubernetes-1.37-dra -o ticket.md
	@if sh tools/system.sh --check; then \
	  $(BIN)/changegen ticket examples/upgrade-1.37/before --profile kubernetes-1.37-dra -o ticket.pdf && echo "written: ticket.md ticket.pdf"; \
	else \
	  $(BIN)/changegen ticket examples/upgrade-1.37/before --profile kubernetes-1.37-dra -o ticket.html && echo "written: ticket.md ticket.html"; \
	fi

test: $(STAMP) system ## run the tests (no Go needed)
	@$(BIN)/pytest -q -n auto --dist worksteal -m "not controlplane and not slow"

lint: $(STAMP) ## ruff, formatting, generated docs, catalogues of other languages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@for tool in $(PAGES) messages; do $(BIN)/python tools/$$tool.py --check || exit 1; done

types: $(STAMP) ## mypy --strict
	@$(BIN)/mypy

bench: $(STAMP) ## ratios of speed, measured in one run
	@$(BIN)/python tools/bench.py

docs: $(STAMP) ## remake the generated pages
	@for tool in $(PAGES); do $(BIN)/python tools/$$tool.py || exit 1; done

examples: $(STAMP) ## remake examples/ from their inputs
	@$(BIN)/python tools/make_examples.py

data: $(STAMP) ## remake changegen/data/kubernetes from the Kubernetes Go modules (needs Go)
	@sh tools/go.sh $(BIN)/python tools/kubedata/generate.py

oracle: $(STAMP) ## compare every gate verdict with started binaries (needs Go; long)
	@sh tools/go.sh $(BIN)/python -m tests.controlplane oracle

test-controlplane: $(STAMP) system ## build the real control plane if needed and test against it (needs Go)
	@sh tools/go.sh $(BIN)/python -m tests.controlplane build
	@sh tools/go.sh $(BIN)/pytest -q -n 2 --dist loadfile -m controlplane tests/controlplane

wheel: $(STAMP) ## build the wheel, install it into an empty environment, render a ticket from it
	@sh tools/check_wheel.sh "$(PYTHON)"

system: ## install the Debian packages that PDF needs (root on Debian or Ubuntu)
	@sh tools/system.sh

clean: ## remove what was made
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .coverage
	@rm -f ticket.md ticket.pdf ticket.html ticket.json
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
