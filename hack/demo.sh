#!/usr/bin/env bash
# The main job in one go: a Kubernetes, the operator, and one ValkeyNode of each workload type.
source "$(dirname "$0")/cluster-env.sh"
DEMO=valkey-demo
require_cluster
say "installing the operator"
hack/deploy.sh
say "creating four ValkeyNodes in namespace $DEMO"
"$KUBECTL" create namespace "$DEMO" --dry-run=client -o yaml | "$KUBECTL" apply -f - >&2
"$KUBECTL" label namespace "$DEMO" pod-security.kubernetes.io/enforce=restricted --overwrite >&2
"$KUBECTL" -n "$DEMO" apply -f examples/valkeynode-demo.yaml >&2
"$KUBECTL" -n "$DEMO" wait --for=condition=Ready --timeout=180s valkeynode --all >&2
"$KUBECTL" -n "$DEMO" exec valkey-demo-volume-0 -c valkey -- valkey-cli set greeting hello >&2
say "four servers, each in its own way"
"$KUBECTL" -n "$DEMO" get valkeynode -o wide
if [[ "$LOCAL_CLUSTER" == true ]]; then
  cat <<TEXT

Look around:
  export KUBECONFIG=$PWD/.devcluster/kubeconfig PATH=$PWD/.devcluster/bin:\$PATH
  kubectl -n $DEMO get valkeynode,pod,service,pvc
  kubectl -n $DEMO describe valkeynode demo-volume
  kubectl -n $DEMO exec valkey-demo-volume-0 -- valkey-cli get greeting
  kubectl -n $NAMESPACE logs deploy/valkey-operator
Stop and remove everything:
  make cluster-down
TEXT
else
  cat <<TEXT

Look around:
  kubectl -n $DEMO describe valkeynode demo-volume
Remove it:
  kubectl delete namespace $DEMO && make undeploy
TEXT
fi
