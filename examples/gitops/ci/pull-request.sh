#!/bin/sh
# Checks the config of all clusters, and prints which addresses a pull request treats otherwise.
# Usage, in a checkout: ci/pull-request.sh MAIN, where MAIN is a directory with the main branch. It needs kubectl and ip-masq-agent.
set -eu
main=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for cluster in prod-eu prod-us; do
  kubectl kustomize "fleet/$cluster" > "$work/all.yaml"
  # Each pool by itself, with the arguments of its DaemonSet.
  ip-masq-agent check --strict --expect="ci/$cluster-assertions.txt" "$work/all.yaml" "clouds/$cluster.yaml" > "$work/report" || {
    code=$?
    cat "$work/report"
    exit $code
  }
  for pool in edge rest; do
    [ -d "$main/fleet/$cluster/$pool" ] || continue # it is new
    kubectl kustomize "$main/fleet/$cluster/$pool" > "$work/before.yaml"
    kubectl kustomize "fleet/$cluster/$pool" > "$work/after.yaml"
    echo "$cluster, $pool:"
    # 4: there are such addresses, which is for people to judge.
    ip-masq-agent render -f "$work/before.yaml" -f "$main/clouds/$cluster.yaml" \
      --diff-to="$work/after.yaml" --diff-to="clouds/$cluster.yaml" || [ $? = 4 ]
  done
done
