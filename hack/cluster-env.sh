# Sourced by the other scripts: which cluster is meant, and with which kubectl.
# A KUBECONFIG given by the user wins: that cluster is used and nothing is started or stopped.
# The rule is that of crates/devcluster/src/target.rs: a link to the local cluster's file, or another checkout's copy of
# it, is no other cluster; a list (a:b) is left to kubectl.
set -euo pipefail
if [[ -n "${KUBECONFIG:-}" && "$KUBECONFIG" != *:* ]]; then
  KUBECONFIG=$(realpath --canonicalize-missing --no-symlinks -- "$KUBECONFIG")
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

is_local() {
  local resolved
  resolved=$(realpath --canonicalize-missing -- "$1")
  [[ "$1" == */.devcluster/kubeconfig || "$resolved" == */.devcluster/kubeconfig ||
    "$resolved" == "$(realpath --canonicalize-missing /var/lib/valkey-devcluster/kubeconfigs/admin)" ]]
}

if [[ -n "${KUBECONFIG:-}" ]] && ! is_local "$KUBECONFIG"; then
  LOCAL_CLUSTER=false
  KUBECTL=kubectl
else
  LOCAL_CLUSTER=true
  export KUBECONFIG="$PWD/.devcluster/kubeconfig"
  KUBECTL="$PWD/.devcluster/bin/kubectl"
fi
NAMESPACE=valkey-operator-system
TARGET_DIR="${CARGO_TARGET_DIR:-target}"
PROGRAMS=("$TARGET_DIR"/x86_64-unknown-linux-gnu/release/{valkey-operator,valkey-agent})

say() { printf '\n==> %s\n' "$*" >&2; }

# The local cluster must run; a foreign one is only looked at.
require_cluster() {
  if [[ "$LOCAL_CLUSTER" == true ]]; then
    (unset KUBECONFIG; make cluster-up)
  fi
  "$KUBECTL" version >/dev/null
}

# For what only works on a cluster that is there already.
require_known_cluster() {
  if [[ "$LOCAL_CLUSTER" == true && ! -e "$KUBECONFIG" ]]; then
    echo "there is no local cluster: run \`make cluster-up\` first, or set KUBECONFIG" >&2
    exit 1
  fi
}

# For what breaks machines or looks into their control groups: no other cluster may be touched.
require_local() {
  if [[ "$LOCAL_CLUSTER" != true ]]; then
    echo "$1 runs on the local cluster only, and KUBECONFIG names another one: unset KUBECONFIG" >&2
    exit 1
  fi
}
