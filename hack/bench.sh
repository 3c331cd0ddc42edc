#!/usr/bin/env bash
# Figures on the local cluster, with the machine they were taken on.
source "$(dirname "$0")/cluster-env.sh"
require_local "make bench"
require_cluster
hack/deploy.sh
cargo run --locked --quiet -p e2e --bin bench -- ${ONLY:-}
