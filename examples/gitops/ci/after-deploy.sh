#!/bin/sh
# Waits for a deployment, then asks all nodes of a cluster. It fails if a node breaks an assertion, has no agent, or gives no answer.
# Usage: ci/after-deploy.sh CLUSTER, which is also the name of its context in kubectl. It needs kubectl and ip-masq-agent.
# Before it, wait until Git is applied:
#   argocd app wait ip-masq-agent-prod-eu --sync --health
#   flux reconcile kustomization ip-masq-agent --with-source
set -eu
cluster=$1
for pool in edge rest; do
  kubectl --context="$cluster" -n kube-system rollout status "daemonset/ip-masq-agent-$pool" --timeout=30m
done
# kubelet brings an edit of a ConfigMap within 90 seconds.
sleep "${KUBELET_SECONDS:-90}"
ip-masq-agent fleet check --context="$cluster" --expect="ci/$cluster-assertions.txt"
ip-masq-agent fleet status --context="$cluster"
