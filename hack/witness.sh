#!/usr/bin/env bash
# Writes to a ValkeyCluster at a fixed rate while you do something to it, and tells what that cost. Servers are written to
# at the addresses of their pods, which must be reachable from here: those of the local cluster are.
#   CLUSTER    name of the ValkeyCluster
#   NAMESPACE  its namespace (default)
#   FOR, RATE  how long, and how many writes a second (60s, 500)
#   AS_USER    a user of its spec (the first one; without users, whoever needs no password)
namespace=${NAMESPACE:-default}
source "$(dirname "$0")/cluster-env.sh"
require_known_cluster
if [[ -z "${CLUSTER:-}" ]]; then
  echo "which cluster? make witness CLUSTER=<name> [NAMESPACE=$namespace] [FOR=60s] [RATE=500] [AS_USER=<user>]" >&2
  exit 2
fi

kube() { "$KUBECTL" -n "$namespace" "$@"; }
spec() { kube get valkeycluster "$CLUSTER" -o "jsonpath={.spec.$1}"; }
# Goes through no variable and no argument: only the witness reads it.
secret() { kube get secret "$1" -o "go-template={{index .data \"$2\" | base64decode}}"; }

arguments=(--for "${FOR:-60s}" --rate "${RATE:-500}")
slices=(get endpointslices -l "kubernetes.io/service-name=valkey-$CLUSTER-client")
read -ra addresses <<<"$(kube "${slices[@]}" -o 'jsonpath={.items[*].endpoints[*].addresses[0]}')"
if [[ ${#addresses[@]} -eq 0 ]]; then
  echo "the Service valkey-$CLUSTER-client in $namespace has no endpoint: is ValkeyCluster $CLUSTER there and ready?" >&2
  exit 2
fi
port=$(kube "${slices[@]}" -o 'jsonpath={.items[0].ports[0].port}')
for address in "${addresses[@]}"; do
  arguments+=(--seed "$address:$port")
done

user=${AS_USER:-$(spec 'users[0].name')}
if [[ -n "$user" ]]; then
  arguments+=(--user "$user")
  mine="users[?(@.name==\"$user\")]"
  if [[ "$(spec "$mine.nopass")" != true ]]; then
    name=$(spec "$mine.passwordSecret.name")
    key=$(spec "$mine.passwordSecret.keys[0]")
    exec {password}< <(secret "${name:-$CLUSTER-users}" "${key:-$user}")
    arguments+=(--password-file "/dev/fd/$password")
  fi
fi
certificates=$(spec networking.tls.certificates.server.secretName)
if [[ -n "$certificates" ]]; then
  exec {authority}< <(secret "$certificates" ca.crt)
  # The certificate is made for the Service, not for addresses that change.
  arguments+=(--tls-ca "/dev/fd/$authority" --tls-server-name "${TLS_NAME:-valkey-$CLUSTER-client.$namespace.svc}")
fi
cargo run --locked --quiet -p e2e --bin witness -- "${arguments[@]}"
