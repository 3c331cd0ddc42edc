#!/usr/bin/env bash
# What is too long for `make test`: a crash after every write of a creation for each workload type, and repeated machine
# losses, freezes and full disks.
source "$(dirname "$0")/cluster-env.sh"
require_local "make campaign"
require_cluster
hack/deploy.sh
cargo run --locked --quiet -p e2e --bin campaign -- ${ONLY:-}
