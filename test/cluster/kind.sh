#!/usr/bin/env bash
# Runs the scenarios in kind, as the workflow does: test/cluster/kind.sh IMAGE [SCENARIOS], such as kindest/node:v1.34.0.
# It needs root, Docker, kind and kubectl. kindnet, kind's own CNI plugin, masquerades by itself, so pods get addresses from the
# plugin ptp here, which kind's nodes have too, and nodes find each other's pods by routes. It has not been seen to run yet.
set -euo pipefail
cd "$(dirname "$0")/../.."
build/setup.sh cluster
image=${1:?the image of the nodes, such as kindest/node:v1.34.0}
name=ip-masq-test
work=$(mktemp -d)
export KUBECONFIG=$work/kubeconfig
trap 'kind delete cluster --name "$name"; rm -rf "$work"' EXIT

# kubelet reacts as fast as in a cluster of the tests' own: see test/cluster/local/worker.ts.
kind create cluster --name "$name" --image "$image" --config=- <<EOF
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  disableDefaultCNI: true
  kubeProxyMode: ${PROXY_MODE:-iptables}
nodes:
  - role: control-plane
  - role: worker
  - role: worker
kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration
    syncFrequency: 2s
    featureGates:
      KubeletCrashLoopBackOffMax: true
    crashLoopBackOff:
      maxContainerRestartPeriod: 3s
EOF

field() { kubectl get node "$1" --output="jsonpath=$2"; }
nodes=$(kind get nodes --name "$name")
for node in $nodes; do
  range=$(field "$node" '{.spec.podCIDR}')
  address=$(field "$node" '{.status.addresses[?(@.type=="InternalIP")].address}')
  docker exec --interactive "$node" tee /etc/cni/net.d/10-pods.conflist >/dev/null <<EOF
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "ranges": [[{ "subnet": "$range" }]],
        "routes": [{ "dst": "0.0.0.0/0" }]
      }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
EOF
  for other in $nodes; do
    [ "$other" = "$node" ] || docker exec "$other" ip route add "$range" via "$address"
  done
done
kubectl wait node --all --for=condition=Ready --timeout=180s
# The scenarios take the first two nodes that take pods.
kubectl cordon "$name-control-plane"

CLUSTER_IMAGE=$(node_modules/.bin/node test/cluster/lab/image.ts)
export CLUSTER_IMAGE CLUSTER_PROXY_MODE=${PROXY_MODE:-iptables}
kind load image-archive --name "$name" "bin/cluster/images/ip-masq-agent-${CLUSTER_IMAGE##*:}.tar"
make test-cluster SCENARIOS="${2:-}"
