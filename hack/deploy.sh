#!/usr/bin/env bash
# Installs CRDs and operator. IMAGE names the operator's image for a cluster that is not ours.
source "$(dirname "$0")/cluster-env.sh"
require_known_cluster
if [[ "$LOCAL_CLUSTER" == true ]]; then
  (unset KUBECONFIG; make images >/dev/null)
fi
# Server-side, like everything else that owns these objects.
"$KUBECTL" apply --server-side --force-conflicts -f deploy/crds >&2
# Right after its creation a CRD has no conditions at all, and waiting for one fails at once.
established() { "$KUBECTL" wait --for=condition=Established --timeout=5s -f deploy/crds >&2; }
for _ in $(seq 20); do
  if established; then break; fi
  sleep 0.5
done
established
# The local image always has the same name: another build must still replace the pods.
if [[ "$LOCAL_CLUSTER" == true ]]; then
  build=$(cat "${PROGRAMS[@]}" | sha256sum | cut -c1-12)
else
  build=release
fi
for file in deploy/operator/*.yaml; do
  sed -e "s|valkey-operator:dev|${IMAGE:-valkey-operator:dev}|" \
    -e "s|^      labels:|      annotations:\n        valkey.io/build: \"$build\"\n      labels:|" "$file"
  echo "---"
done | "$KUBECTL" apply --server-side --force-conflicts -f - >&2
# Beside the operator and not among its objects: its kind goes before they do, and it goes with its kind.
"$KUBECTL" apply --server-side --force-conflicts -f deploy/root >&2
"$KUBECTL" -n "$NAMESPACE" rollout status deployment/valkey-operator --timeout=180s >&2
