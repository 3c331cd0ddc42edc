# The only entry point: `make help` lists what can be done.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

NODES ?= 3
TARGET := x86_64-unknown-linux-gnu
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
CACHE := $(or $(VALKEY_OPERATOR_CACHE),$(and $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/valkey-operator),$(HOME)/.cache/valkey-operator)
# One static file runs in any image, the empty one among them.
STATIC := RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $(TARGET)
OPERATOR := $(TARGET_DIR)/$(TARGET)/release/valkey-operator
AGENT := $(TARGET_DIR)/$(TARGET)/release/valkey-agent
PROGRAMS := --operator $(OPERATOR) --agent $(AGENT)
DEVCLUSTER := $(TARGET_DIR)/debug/devcluster
DENY := $(CACHE)/tools/cargo-deny-0.20.2/bin/cargo-deny

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: ## Run the operator and a ValkeyCluster of three shards on a local Kubernetes (or on the cluster of KUBECONFIG).
	@hack/demo.sh

.PHONY: test
test: ## Run all tests: units, real servers, real API server, whole system.
	@hack/test.sh

.PHONY: lint
lint: deny ## Check formatting, lints, dependencies, generated files, CRD compatibility and the architecture.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo check --quiet --locked --no-default-features --manifest-path fuzz/Cargo.toml --target-dir $(TARGET_DIR)/fuzz
	cargo run --quiet --locked -p xtask -- check

.PHONY: deny
deny: $(DENY)
	cargo fetch --locked --quiet
	$(DENY) --offline check --hide-inclusion-graph bans licenses sources

$(DENY):
	@echo "building cargo-deny once into $(CACHE) (about 4 minutes)"
	cargo install --quiet --locked --no-default-features --version 0.20.2 --root $(CACHE)/tools/cargo-deny-0.20.2 cargo-deny

.PHONY: generate
generate: ## Write CRDs, RBAC, manifests, API docs and examples from the Rust types.
	cargo run --quiet -p xtask -- generate

.PHONY: build
build: devcluster
	$(STATIC) -p valkey-operator -p valkey-agent

.PHONY: devcluster
devcluster:
	cargo build --quiet --locked -p devcluster

.PHONY: images
images: build ## Build the container images (Valkey 9.1 and 8.1, exporter, ours) into the cache and load them.
	$(DEVCLUSTER) images $(PROGRAMS)

.PHONY: cluster-up
cluster-up: build ## Start a local Kubernetes with NODES (3) nodes.
	$(DEVCLUSTER) up --nodes $(NODES)
	$(DEVCLUSTER) images $(PROGRAMS)

.PHONY: cluster-down
cluster-down: devcluster ## Stop the local Kubernetes and remove everything it made.
	$(DEVCLUSTER) down

.PHONY: deploy
deploy: ## Install CRDs and operator into the local cluster (or the one of KUBECONFIG).
	@hack/deploy.sh

.PHONY: undeploy
undeploy: ## Remove the operator and its CRDs, and with them every ValkeyCluster and ValkeyNode.
	@hack/undeploy.sh

.PHONY: bench
bench: ## Measure start times, moves of slots, memory, API calls and sizes on the local cluster (ONLY=nodes|clusters|starts|moves|many).
	@hack/bench.sh

.PHONY: campaign
campaign: ## Every crash point, every fault and every change, again and again (ONLY=crashes|faults|cluster-changes|cluster-faults|failovers|cluster-crashes[-creation|-life]).
	@hack/campaign.sh

.PHONY: witness
witness: ## Write to the ValkeyCluster CLUSTER (in NAMESPACE) for FOR (60s) at RATE (500) a second; tell what was lost or stalled.
	@hack/witness.sh
