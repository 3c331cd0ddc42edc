#!/usr/bin/env bash
# What is too long for `make test`: every crash point, every repetition.
source "$(dirname "$0")/cluster-env.sh"
require_cluster
hack/deploy.sh
cargo run --locked --quiet -p e2e --bin campaign
