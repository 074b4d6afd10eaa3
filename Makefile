# Polyvirt's one entry point for people and CI. `make` or `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

STEP := hack/step.sh
# One selection of packages and one profile wherever possible: another would build every dependency again.
CARGO_TEST := cargo test --workspace --locked
KUBECTL ?= kubectl
BIN_DIR ?= $(HOME)/.local/bin

export CARGO_TERM_COLOR ?= auto
export RUST_BACKTRACE ?= 1
# Most tests wait for a server, a watch or a guest most of the time, so there may be more of them than processors. Those that boot
# guests see to it themselves that no more than two do so at once.
export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(nproc))))

##@ Every day

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the polyvirt program, optimised, as target/fast/polyvirt
	cargo build --profile fast --locked --package polyvirt

.PHONY: up
up: tools build ## A control plane, the manager and a real VM on this machine (UP_ARGS="--provider mock")
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$(hack/control-plane.sh); \
	image=$$(hack/guest.sh); target/fast/polyvirt up --image "$$image" $(UP_ARGS)

.PHONY: down
down: ## Stop all that make up has started, VMs included; nothing is lost (DOWN_ARGS="--purge")
	@[ ! -x target/fast/polyvirt ] || target/fast/polyvirt down $(DOWN_ARGS)

.PHONY: fmt
fmt: ## Format the source
	cargo fmt --all

.PHONY: lint
lint: ## Check format, lints, chart, vocabulary, and if installed licences (cargo-deny) and scripts (shellcheck)
	@hack/lint.sh

.PHONY: clean
clean: ## Stop all that make up has started, remove its data and all that was built (the caches stay)
	@[ ! -x target/fast/polyvirt ] || target/fast/polyvirt down --purge
	cargo clean

##@ Tests

.PHONY: test
test: ## Everything: tools, lint and all tests, on a real etcd and kube-apiserver
	@$(STEP) tools $(MAKE) tools
	@failed=(); \
	$(STEP) lint $(MAKE) lint || failed+=(lint); \
	$(STEP) tests $(MAKE) test-all || failed+=(tests); \
	if [ $${#failed[@]} -gt 0 ]; then echo "make test: FAILED: $${failed[*]}" >&2; exit 1; fi; \
	echo "make test: all passed"

.PHONY: test-all
test-all: ## All tests, without looking at tools and lint first; one that fails beside others is run once more alone
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$(hack/control-plane.sh); hack/test.sh $(CARGO_TEST) --no-fail-fast

.PHONY: bench
bench: tools ## Measure the program as it is released, against the budgets of docs/reference/budgets.md (BENCH_ARGS="--quick")
	cargo build --release --locked --package polyvirt
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$(hack/control-plane.sh); target/release/polyvirt bench --image "$$(hack/guest.sh)" $(BENCH_ARGS)

.PHONY: test-unit
test-unit: ## Only the tests inside the crates: no control plane, seconds
	@$(STEP) unit $(CARGO_TEST) --lib --bins

.PHONY: test-integration
test-integration: ## Only the tests of whole crates, on a real etcd and kube-apiserver
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$(hack/control-plane.sh); $(STEP) integration $(CARGO_TEST) --test '*'

.PHONY: test-chart
test-chart: ## helm lint and helm template with several values; config/default is fresh
	@hack/chart.sh check

.PHONY: test-kubevirt
test-kubevirt: ## The KubeVirt provider and Machines against real virt-api and virt-controller: slow to build the first time (KEEP=1 leaves it running)
	@trap '[ -n "$(KEEP)" ] || hack/kubevirt.sh down' EXIT; $(STEP) kubevirt hack/kubevirt.sh test

.PHONY: e2e
e2e: ## A real node, the image, the chart, a VM, death of a manager, upgrade, uninstall: as root (KEEP=1 leaves it running, PROGRAM=path saves the build)
	@KEEP='$(KEEP)' hack/e2e.sh

.PHONY: test-e2e
test-e2e: e2e

.PHONY: guest-debian
guest-debian: ## Boot a real Debian and see its cloud-init take our seeds: slow, as root, needs mmdebstrap
	@hack/debian-guest.sh check

##@ Generated files

.PHONY: generate
generate: manifests ## Write all generated files again: CRDs, protobuf code, docs/reference
	cargo run --locked --package xtask -- proto
	UPDATE_GENERATED=1 cargo test --locked --package polyvirt --bin polyvirt

.PHONY: manifests
manifests: ## Write CRDs, webhooks and roles again from the code (config, the rules of the chart), and config/default from the chart
	UPDATE_GENERATED=1 cargo test --locked --package polyvirt-api
	UPDATE_GENERATED=1 cargo test --locked --package polyvirt-admission --test generated
	UPDATE_GENERATED=1 cargo test --locked --package polyvirt --bin polyvirt fresh
	@hack/chart.sh manifests

##@ The container image

.PHONY: docker-build
docker-build: ## Build the image, with or without Docker, as dist/image.tar (IMG=name TAG=tag PROFILE=fast)
	@IMG='$(IMG)' TAG='$(TAG)' PROFILE='$(PROFILE)' hack/image.sh build

.PHONY: docker-push
docker-push: ## Push the image that docker-build has made (IMG=name TAG=tag)
	@IMG='$(IMG)' TAG='$(TAG)' hack/image.sh push

##@ A cluster of your own

.PHONY: install
install: ## Apply the CRDs and the roles for consoles to the cluster of the current kubeconfig
	$(KUBECTL) apply --server-side --force-conflicts -f config/crd -f config/rbac

.PHONY: deploy
deploy: install ## Run the manager in the cluster of the current kubeconfig, without Helm (IMG=name:tag; else the released image)
	@IMG='$(IMG)' KUBECTL='$(KUBECTL)' hack/chart.sh deploy

.PHONY: undeploy
undeploy: ## Remove that manager; CRDs, objects and VMs stay
	@KUBECTL='$(KUBECTL)' hack/chart.sh undeploy

.PHONY: install-plugin
install-plugin: build ## Install the program as polyvirt and as kubectl polyvirt in BIN_DIR (~/.local/bin)
	install -D target/fast/polyvirt $(BIN_DIR)/polyvirt
	ln -sfn polyvirt $(BIN_DIR)/kubectl-polyvirt

.PHONY: run
run: ## Run the manager on this machine against the cluster of the current kubeconfig
	cargo run --profile fast --locked --package polyvirt -- manager

##@ A real node on this machine

.PHONY: cluster-up
cluster-up: ## Start a real cluster with one node, for tests, in namespaces of its own (needs root)
	@hack/cluster.sh up

.PHONY: cluster-down
cluster-down: ## Stop it; nothing of it is left
	@hack/cluster.sh down

##@ This machine

.PHONY: packages
packages: ## Install what is missing to run real VMs: QEMU and what builds the test guest
	@hack/packages.sh

.PHONY: tools
tools: ## Install what is missing to build and test: packages, toolchain, etcd and kube-apiserver, QEMU
	@hack/tools.sh
	@hack/packages.sh
