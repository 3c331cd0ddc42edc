#!/usr/bin/env bash
# The main job in one go: a Kubernetes, the operator, and a ValkeyCluster that is written to and read from.
source "$(dirname "$0")/cluster-env.sh"
DEMO=valkey-demo
CLUSTER=cluster
require_cluster
say "installing the operator"
hack/deploy.sh
say "creating a ValkeyCluster of three shards with a replica each in namespace $DEMO"
"$KUBECTL" create namespace "$DEMO" --dry-run=client -o yaml | "$KUBECTL" apply -f - >&2
"$KUBECTL" label namespace "$DEMO" pod-security.kubernetes.io/enforce=restricted --overwrite >&2
started=$SECONDS
"$KUBECTL" -n "$DEMO" apply -f examples/valkeycluster.yaml >&2
"$KUBECTL" -n "$DEMO" wait --for=condition=Ready --timeout=180s "valkeycluster/$CLUSTER" >&2
say "ready after $((SECONDS - started)) s; writing a key and reading it, through the cluster's Service"
# Any pod of the namespace could do this; -c follows the cluster's redirections.
valkey() { "$KUBECTL" -n "$DEMO" exec "valkey-$CLUSTER-0-0-0" -c valkey -- valkey-cli -c -h "valkey-$CLUSTER-client" "$@"; }
printf 'set greeting hello: %s\n' "$(valkey set greeting hello)"
greeting=$(valkey get greeting)
printf 'get greeting:       %s\n' "$greeting"
[[ "$greeting" == hello ]]
say "the cluster and its nodes"
"$KUBECTL" -n "$DEMO" get valkeycluster -o wide
echo
"$KUBECTL" -n "$DEMO" get valkeynode
if [[ "$LOCAL_CLUSTER" == true ]]; then
  cat <<TEXT

Look around:
  export KUBECONFIG=$PWD/.devcluster/kubeconfig PATH=$PWD/.devcluster/bin:\$PATH
  kubectl -n $DEMO get valkeycluster,valkeynode,pod,service
  kubectl -n $DEMO describe valkeycluster $CLUSTER
  kubectl -n $NAMESPACE logs deploy/valkey-operator
Break something, and see in another terminal what it costs:
  make witness CLUSTER=$CLUSTER NAMESPACE=$DEMO
  kubectl -n $DEMO delete pod valkey-$CLUSTER-0-0-0
Single servers, one of each workload type:
  kubectl -n $DEMO apply -f examples/valkeynode-demo.yaml
Stop and remove everything:
  make cluster-down
TEXT
else
  cat <<TEXT

Look around:
  kubectl -n $DEMO describe valkeycluster $CLUSTER
Remove it:
  kubectl delete namespace $DEMO && make undeploy
TEXT
fi
