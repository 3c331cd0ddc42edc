#!/usr/bin/env bash
# All tests, cheapest first. A KUBECONFIG given by the user is used for the whole-system tests.
source "$(dirname "$0")/cluster-env.sh"
started=$SECONDS
step() { say "[$((SECONDS - started)) s] $*"; }

step "images and programs of Valkey (built once into the cache)"
(unset KUBECONFIG; make images >/dev/null)
step "units, properties, rules, real valkey-server processes"
cargo test --locked --quiet --workspace --exclude e2e
step "a Kubernetes to test on"
require_cluster
if [[ "$LOCAL_CLUSTER" == true ]]; then
  trap '(unset KUBECONFIG; make cluster-down)' EXIT
fi
step "installing the operator"
hack/deploy.sh
step "the whole system, several nodes side by side"
cargo test --locked --quiet -p e2e --test nodes -- --test-threads 4
if [[ "$LOCAL_CLUSTER" == true ]]; then
  step "the whole system, one disturbance after the other"
  cargo test --locked --quiet -p e2e --test disturbances -- --test-threads 1
  step "the local Kubernetes itself: volumes, faults"
  cargo test --locked --quiet -p devcluster --features live --test cluster -- --test-threads 1
  step "the local Kubernetes itself: interrupted starts, warm start, memory (takes the cluster down)"
  (unset KUBECONFIG; make cluster-down)
  cargo test --locked --quiet -p devcluster --features live --test lifecycle -- --test-threads 1
fi
step "all tests passed"
