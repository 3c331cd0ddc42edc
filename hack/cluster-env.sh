# Sourced by the other scripts: which cluster is meant, and with which kubectl.
# A KUBECONFIG given by the user wins: that cluster is used and nothing is started or stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -n "${KUBECONFIG:-}" && "$KUBECONFIG" != "$PWD/.devcluster/kubeconfig" ]]; then
  LOCAL_CLUSTER=false
  KUBECTL=kubectl
else
  LOCAL_CLUSTER=true
  export KUBECONFIG="$PWD/.devcluster/kubeconfig"
  KUBECTL="$PWD/.devcluster/bin/kubectl"
fi
NAMESPACE=valkey-operator-system
TARGET_DIR="${CARGO_TARGET_DIR:-target}"
OPERATOR="$TARGET_DIR/x86_64-unknown-linux-gnu/release/valkey-operator"

say() { printf '\n==> %s\n' "$*" >&2; }

# The local cluster must run; a foreign one is only looked at.
require_cluster() {
  if [[ "$LOCAL_CLUSTER" == true ]]; then
    (unset KUBECONFIG; make cluster-up)
  fi
  "$KUBECTL" version >/dev/null
}
