#!/usr/bin/env bash
# What is too long for `make test`: every crash point, every fault and every change, again and again.
source "$(dirname "$0")/cluster-env.sh"
require_local "make campaign"
require_cluster
hack/deploy.sh
cargo run --locked --quiet -p e2e --bin campaign -- ${ONLY:-}
