#!/usr/bin/env bash
# Checks the Helm chart, and makes the plain manifests from it.
#
#   hack/chart.sh check       helm lint and helm template with the values of charts/polyvirt/ci; are the manifests fresh?
#   hack/chart.sh manifests   writes config/default/polyvirt.yaml: the chart with its defaults, for kubectl apply -k
#   hack/chart.sh deploy      applies them to the cluster of the current kubeconfig, with the image of $IMG
#   hack/chart.sh undeploy    removes them again; CRDs and objects stay
set -euo pipefail
cd "$(dirname "$0")/.."

CHART=charts/polyvirt
MANIFESTS=config/default/polyvirt.yaml
KUBECTL=${KUBECTL:-kubectl}

say() { printf 'chart: %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
helm() { "$HELM" "$@"; }

# Nothing in them shall tell that Helm has made them: kubectl owns them.
manifests() {
  echo "# Made from charts/polyvirt by make manifests. Change the chart."
  helm template polyvirt "$CHART" --namespace polyvirt-system --set crdUpgrade.enabled=false |
    sed -e '/^# Source: /d' -e '/helm.sh\/chart:/d' -e 's/managed-by: Helm/managed-by: kustomize/'
}

# helm template with a value that the schema does not know must fail.
refuses() {
  if helm template polyvirt "$CHART" --set "$1" >/dev/null 2>&1; then die "the schema lets $1 pass"; fi
}

check() {
  local values
  for values in "$CHART/values.yaml" "$CHART"/ci/*.yaml; do
    helm lint --strict --quiet "$CHART" --values "$values"
    helm template polyvirt "$CHART" --namespace polyvirt-system --values "$values" >/dev/null
    say "$values: ok"
  done
  refuses replicaCount=two
  refuses replicas=2
  refuses logging.format=xml
  no_secrets_elsewhere
  diff --unified "$MANIFESTS" <(manifests) || die "$MANIFESTS is stale: run make manifests"
  say "$MANIFESTS: fresh"
}

# A manager for some namespaces has no right to Secrets by a ClusterRole.
no_secrets_elsewhere() {
  local roles
  roles=$(helm template polyvirt "$CHART" --values "$CHART/ci/namespaced.yaml" --show-only templates/rbac.yaml |
    awk 'BEGIN { RS = "---" } /kind: ClusterRole\n/')
  [ -n "$roles" ] || die "no ClusterRole found"
  if grep -q secrets <<<"$roles"; then die "with scope.namespaces the manager can still read Secrets everywhere"; fi
}

# Also in the variable that names the default image of providers, which is no field that kustomize knows.
deploy() {
  local image=${IMG:?IMG= names the image}
  "$KUBECTL" kustomize config/default | sed "s|ghcr.io/polyvirt/polyvirt:[^\" ]*|$image|" |
    "$KUBECTL" apply --server-side --force-conflicts -f -
}

case "${1:-}" in
  check | manifests) HELM=$(hack/go-tool.sh helm) ;;
  deploy | undeploy) ;;
  *) die "usage: hack/chart.sh check|manifests|deploy|undeploy" ;;
esac
case "$1" in
  check) check ;;
  manifests)
    manifests >"$MANIFESTS.new"
    mv "$MANIFESTS.new" "$MANIFESTS"
    ;;
  deploy) deploy ;;
  # Not the namespace: somebody may have put VMs there.
  undeploy) "$KUBECTL" delete --ignore-not-found -f "$MANIFESTS" ;;
esac
