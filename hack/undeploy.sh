#!/usr/bin/env bash
# Removes the operator and its CRDs; every ValkeyCluster and ValkeyNode goes with them, volumes of policy Retain stay.
source "$(dirname "$0")/cluster-env.sh"
require_known_cluster
"$KUBECTL" delete --ignore-not-found -f deploy/crds
"$KUBECTL" delete --ignore-not-found -f deploy/operator
