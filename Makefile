# All tasks of this repository; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Free of constructions that are hard to read; the rest of kgd/, tests/ and docs/ follows.
PLAIN := README.md CHANGELOG.md CONTRIBUTING.md ENGINEERING.md ARCHITECTURE.md $(wildcard kgd/*.py) scripts hooks deploy bench tests \
	docs/guides docs/decisions $(wildcard docs/*.md) $(filter-out %/keywords.py,$(wildcard kgd/memories/*.py)) \
	$(filter-out kgd/memories,$(patsubst %/__init__.py,%,$(wildcard kgd/*/__init__.py)))
TOGETHER := --dist loadfile --no-loadscope-reorder
# Compiled files are kept: otherwise hundreds of test processes would compile kgd again.
unexport PYTHONDONTWRITEBYTECODE

# The rooms of the tests; those of the workspace are folders of their own below tests/workspace.
ROOMS = $(sort $(filter-out __pycache__,$(notdir $(patsubst %/,%,$(wildcard tests/*/ tests/workspace/*/)))))
IN = $(firstword $(wildcard $(addsuffix /$(firstword $(subst ::, ,$(1))),tests tests/workspace)))
$(if $(and $(filter command,$(origin ROOM)),$(if $(strip $(ROOM)),,empty)),$(error ROOM is empty. The rooms are: $(ROOMS)))
$(foreach room,$(ROOM),$(if $(call IN,$(room)),,$(error there is no room $(room). The rooms are: $(ROOMS))))
FILES = $(notdir $(wildcard $(call IN,$(1))/test_*.py))
$(foreach room,$(ROOM),$(if $(findstring ::,$(room)),$(if $(call FILES,$(room)),\
	$(error $(room) names a test without its file. The files of this room are: $(call FILES,$(room))))))
# Refused before anything is installed.
$(if $(filter bench-retrieval,$(MAKECMDGOALS)),$(if $(and $(DATA),$(wildcard $(DATA)/.)),,\
	$(error $(if $(DATA),there is no folder $(DATA). )bench-retrieval needs the folder with the data sets: make bench-retrieval DATA=DIR. See docs/search.md)))

.PHONY: help up down test test-all _tests test-deps coverage pictures site lint bench bench-peers bench-retrieval profile soak release lock clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

up: $(VENV)/.runtime ## install kgd into the clone, start it, walk a graph of this code tree
	@$(PYTHON) scripts/first_walk.py $(BIN)/kgd

down: ## stop the daemon
	$(if $(wildcard $(BIN)/kgd),,$(error kgd is not installed in this clone. Install it with: make up))
	@$(BIN)/kgd down

test: $(VENV)/.develop ## linters and the tests, about three minutes on two cores; ROOM=git: only the tests in tests/git
	@$(MAKE) --no-print-directory -j2 $(if $(ROOM),,lint) _tests

test-all: $(VENV)/.develop ## the same and the slower tests, about 20 minutes on two cores
	@$(MAKE) --no-print-directory -j2 lint _tests CHOSEN='-m "not soak and not large"'

# The linters use one processor, so they run beside the tests.
_tests: $(VENV)/.develop
	$(PYTEST) -q -n $(if $(ROOM),2,4) $(TOGETHER) $(CHOSEN) $(PLACES) || $(BIN)/python scripts/second_chance.py $$? $(CHOSEN) $(PLACES)
PLACES = $(foreach room,$(ROOM),$(call IN,$(room))$(room:$(firstword $(subst ::, ,$(room)))%=%))

# The rooms that `pyproject.toml` measures, and the tests of the formats.
coverage: $(VENV)/.develop ## measure the tests' coverage of the model, codec, graph and index; fails below the last figure
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n 2 $(TOGETHER) $(addprefix tests/,model codec format graph index)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

test-deps: $(VENV)/.develop ## install the programs that some tests need
	@sh scripts/test_deps.sh

pictures: $(VENV)/.develop ## renew docs/pictures: screenshots in Chromium, and the picture of the architecture
	@$(BIN)/python scripts/architecture.py > docs/pictures/architecture.svg
	KGD_PICTURES=1 $(PYTEST) -q -m picture tests/ui

site: $(VENV)/.runtime ## the manual as a folder of HTML files (OUT=DIR)
	@$(BIN)/python -m kgd.ui.site $(or $(OUT),site)

lint: $(VENV)/.develop ## run only the linters
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python scripts/plain_english.py --max 0.5 --list 5 $(PLAIN)

bench: $(VENV)/.develop ## measure the figures of docs/performance.md, print them and write JSON
	$(BIN)/python -m bench

bench-peers: $(VENV)/.develop ## measure kgd beside other memory servers for agents, at 1,000 and 10,000 notes
	$(BIN)/python -m bench peers --sizes 1000,10000

bench-retrieval: $(VENV)/.develop ## measure how well search finds, on the sets in DATA=DIR
	$(BIN)/python -m bench.retrieval $(DATA) $(if $(EMBEDDER),--embedder $(EMBEDDER))

profile: $(VENV)/.develop ## draw flame graphs of writes, get, search and a start into docs/pictures
	$(BIN)/python -m bench.profiling

soak: $(VENV)/.develop ## run long proofs and tests at full size for MINUTES=60
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60)

release: $(VENV)/.develop ## build what a release publishes, into dist/ (DRAFT=1: without a section of the changelog)
	@$(BIN)/python scripts/release.py $(if $(DRAFT),--draft)

lock: ## renew the locked dependencies
	printf 'hatchling>=1.27\neditables>=0.5\n' > locks/build.in
	uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --universal pyproject.toml locks/build.in -o locks/runtime.txt
	uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --universal pyproject.toml locks/build.in --extra oidc --extra postgres --extra telemetry -o locks/hub.txt
	uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --universal pyproject.toml locks/build.in --group dev --extra code --extra docs --extra oidc --extra onnx --extra telemetry -o locks/develop.txt

clean: ## remove the files of the other targets; knowledge stays
	rm -rf $(VENV) .venv-mcp1 .minilm .coverage node_modules bench-results site .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.runtime: locks/runtime.txt pyproject.toml scripts/install.sh
	@sh scripts/install.sh "$(PYTHON)" locks/runtime.txt
	@touch $@

$(VENV)/.develop: locks/develop.txt pyproject.toml scripts/install.sh
	@sh scripts/install.sh "$(PYTHON)" locks/develop.txt
	@touch $@
