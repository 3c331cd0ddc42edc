#!/usr/bin/env bash
# All tests, cheapest first. A KUBECONFIG given by the user is used for the whole-system tests.
source "$(dirname "$0")/cluster-env.sh"
started=$SECONDS
step() { say "[$((SECONDS - started)) s] $*"; }
results=$(mktemp)
finish() {
  local code=$?
  if [[ "$LOCAL_CLUSTER" == true ]]; then
    (unset KUBECONFIG; make cluster-down) || code=1
  fi
  # One line at the very end: how many tests there were, and how they went.
  awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$results"
  rm -f "$results"
  exit "$code"
}
trap finish EXIT
tests() { cargo test --locked "$@" 2>&1 | tee -a "$results"; }

if [[ "$LOCAL_CLUSTER" == true ]]; then
  step "images and programs of Valkey (built once into the cache)"
  make images >/dev/null
  step "units, properties, rules, real valkey-server processes"
  tests --quiet --workspace --exclude e2e
  step "the witness and the invariants, on real servers"
  tests --quiet -p e2e --lib --test witness
fi
step "a Kubernetes to test on"
require_cluster
step "installing the operator"
hack/deploy.sh
step "the whole system, several nodes side by side"
tests --quiet -p e2e --test nodes -- --test-threads 4
step "the whole system, clusters side by side"
tests --quiet -p e2e --test clusters -- --test-threads 3
if [[ "$LOCAL_CLUSTER" == true ]]; then
  step "the whole system, one disturbance after the other"
  tests --quiet -p e2e --test disturbances -- --test-threads 1
  step "the local Kubernetes itself: volumes, faults"
  tests --quiet -p devcluster --features live --test cluster -- --test-threads 1
  step "the local Kubernetes itself: interrupted starts, warm start, memory"
  tests --quiet -p devcluster --features live --test lifecycle -- --test-threads 1
fi
step "all tests passed"
