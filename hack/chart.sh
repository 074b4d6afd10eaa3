#!/usr/bin/env bash
# Checks the Helm chart, and makes the plain manifests from it.
#
#   hack/chart.sh check       helm lint and helm template with the values of charts/polyvirt/ci; do the alerts work, are the manifests fresh?
#   hack/chart.sh manifests   writes config/default/polyvirt.yaml: the chart with its defaults, for kubectl apply -k; parts of it in
#                             config/prometheus and config/network-policy; and the chart for one namespace, for a test
#   hack/chart.sh deploy      applies them to the cluster of the current kubeconfig, with the image of $IMG; without it the released one
#   hack/chart.sh undeploy    removes them again; CRDs and objects stay
set -euo pipefail
cd "$(dirname "$0")/.."

CHART=charts/polyvirt
MANIFESTS=config/default/polyvirt.yaml
# The same for one namespace: the test of the manager's rights takes it from here.
NAMESPACED=crates/polyvirt/tests/rights/namespaced.yaml
# Parts of the chart under the paths that kubebuilder projects use: the Prometheus operator's objects, the network policy.
MONITOR=config/prometheus/monitor.yaml
ALERTS=config/prometheus/alerts.yaml
POLICY=config/network-policy/manager.yaml
KUBECTL=${KUBECTL:-kubectl}

say() { printf 'chart: %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
helm() { "$HELM" "$@"; }

# Nothing in them shall tell that Helm has made them: kubectl owns them.
# manifests [OPTIONS OF helm template...]
manifests() {
  echo "# Made from charts/polyvirt by make manifests. Change the chart."
  helm template polyvirt "$CHART" --namespace polyvirt-system --set crdUpgrade.enabled=false "$@" |
    sed -e '/^# Source: /d' -e '/helm.sh\/chart:/d' -e 's/managed-by: Helm/managed-by: kustomize/'
}

# helm template with a value that the schema does not know must fail.
refuses() {
  if helm template polyvirt "$CHART" --set "$1" >/dev/null 2>&1; then die "the schema lets $1 pass"; fi
}

# acts TEMPLATE VALUE TEXT: the template shows the text with the value, and not without it.
acts() {
  local shown
  shown=$(helm template polyvirt "$CHART" --show-only "templates/$1" --set "$2")
  grep -qF -- "$3" <<<"$shown" || die "$2 does not act: no '$3' in $1"
  shown=$(helm template polyvirt "$CHART" --show-only "templates/$1" 2>/dev/null || true)
  if grep -qF -- "$3" <<<"$shown"; then die "'$3' is in $1 without $2 too: it shows nothing"; fi
}

# keeps_the_rest TEMPLATE VALUE: the value acts, and removes no field that the template shows without it.
keeps_the_rest() {
  local before after lost
  before=$(helm template polyvirt "$CHART" --show-only "templates/$1")
  after=$(helm template polyvirt "$CHART" --show-only "templates/$1" --set "$2")
  [ "$before" != "$after" ] || die "$2 does not act in $1"
  lost=$(diff <(sed 's/:.*//' <<<"$before" | sort) <(sed 's/:.*//' <<<"$after" | sort) | sed -n 's/^< //p') || true
  [ -z "$lost" ] || die "$2 removes from $1: $lost"
}

# The values that VirtRigaud's users know. Which providers run where is seen by the tests of crates/runtimes.
known_values_act() {
  acts deployment.yaml image.repository=example.com/vms/manager 'image: example.com/vms/manager:'
  acts deployment.yaml image.tag=v7 'image: ghcr.io/polyvirt/polyvirt:v7'
  acts deployment.yaml image.pullPolicy=Always 'imagePullPolicy: Always'
  acts deployment.yaml replicaCount=3 'replicas: 3'
  acts deployment.yaml resources.limits.cpu=7 'cpu: 7'
  acts deployment.yaml nodeSelector.disk=ssd 'disk: ssd'
  acts deployment.yaml 'tolerations[0].key=vms-only' 'key: vms-only'
  acts deployment.yaml affinity.podAffinity.vms=near 'vms: near'
  acts deployment.yaml providers.libvirt.enabled=false 'value: "kubevirt,mock,qemu"'
  acts deployment.yaml providers.vsphere.enabled=true 'value: "kubevirt,libvirt,mock,qemu,vsphere"'
  acts deployment.yaml vmShortName=novacron '--vm-short-name=novacron'
  acts crd-upgrade.yaml vmShortName=novacron '--vm-short-name=novacron'
  acts gateway.yaml vmShortName=novacron 'name: priority.novacron.io'
  acts crd-upgrade.yaml nodeSelector.disk=ssd 'disk: ssd'
  acts crd-upgrade.yaml image.tag=v7 'image: ghcr.io/polyvirt/polyvirt:v7'
  helm template polyvirt "$CHART" --show-only templates/crd-upgrade.yaml | grep 'app.kubernetes.io/component: crd-upgrade' >/dev/null ||
    die "the job that upgrades CRDs cannot be found by its label"
  if helm template polyvirt "$CHART" --set crdUpgrade.enabled=false | grep 'kind: Job' >/dev/null; then die "crdUpgrade.enabled=false does not act"; fi
  say "values: they act"
}

# The same in the form of VirtRigaud's own chart, so that a values file from there does what it did.
values_of_virtrigaud_act() {
  local name
  acts deployment.yaml manager.replicaCount=3 'replicas: 3'
  acts pdb.yaml manager.replicaCount=3 'kind: PodDisruptionBudget'
  acts deployment.yaml manager.resources.limits.cpu=7 'cpu: 7'
  for name in manager.securityContext.runAsUser=7 manager.podSecurityContext.fsGroup=7 manager.resources.limits.cpu=7; do
    keeps_the_rest deployment.yaml "$name"
  done
  acts deployment.yaml manager.nodeSelector.disk=ssd 'disk: ssd'
  acts deployment.yaml 'manager.tolerations[0].key=vms-only' 'key: vms-only'
  acts deployment.yaml manager.affinity.podAffinity.vms=near 'vms: near'
  acts deployment.yaml manager.serviceAccount.name=vms 'serviceAccountName: vms'
  acts deployment.yaml 'manager.env[0].name=VIRTRIGAUD_LOG_LEVEL,manager.env[0].value=trace' 'value: "trace"'
  acts deployment.yaml 'manager.env[0].name=HTTPS_PROXY,manager.env[0].value=proxy:1' 'name: HTTPS_PROXY'
  acts deployment.yaml providers.libvirt.image.repository=example.com/theirs,providers.libvirt.image.tag=v7 'value: "example.com/theirs:v7"'
  acts metrics.yaml observability.prometheus.serviceMonitor.enabled=true 'kind: ServiceMonitor'
  if helm template polyvirt "$CHART" --set webhooks.validating.failurePolicy=Ignore | grep 'failurePolicy: Fail' >/dev/null; then die "webhooks.validating.failurePolicy does not act"; fi
  if helm template polyvirt "$CHART" --set security.networkPolicies.enabled=false | grep 'kind: NetworkPolicy' >/dev/null; then die "security.networkPolicies.enabled=false does not act"; fi
  say "values in VirtRigaud's form: they act"
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
  known_values_act
  values_of_virtrigaud_act
  no_secrets_elsewhere
  alerts
  is_fresh "$MANIFESTS"
  is_fresh "$NAMESPACED" "${ONE_NAMESPACE[@]}"
  is_fresh "$MONITOR" "${AS_MONITOR[@]}"
  is_fresh "$ALERTS" "${AS_ALERTS[@]}"
  is_fresh "$POLICY" "${AS_POLICY[@]}"
}

ONE_NAMESPACE=(--set 'scope.namespaces={default}')
AS_MONITOR=(--show-only templates/metrics.yaml --set metrics.serviceMonitor.enabled=true)
AS_ALERTS=(--show-only templates/prometheusrule.yaml --set metrics.prometheusRule.enabled=true)
AS_POLICY=(--show-only templates/networkpolicy.yaml)

# is_fresh FILE [OPTIONS...]
is_fresh() {
  diff --unified "$1" <(manifests "${@:2}") || die "$1 is stale: run make manifests"
  say "$1: fresh"
}

# write FILE [OPTIONS...]
write() {
  manifests "${@:2}" >"$1.new"
  mv "$1.new" "$1"
}

# A manager for some namespaces has no right to Secrets by a ClusterRole.
no_secrets_elsewhere() {
  local roles
  roles=$(helm template polyvirt "$CHART" --values "$CHART/ci/namespaced.yaml" --show-only templates/rbac.yaml |
    awk 'BEGIN { RS = "---" } /kind: ClusterRole\n/')
  [ -n "$roles" ] || die "no ClusterRole found"
  if grep -q secrets <<<"$roles"; then die "with scope.namespaces the manager can still read Secrets everywhere"; fi
}

# Prometheus can read the alerts, and each is raised when it should be, and only then.
alerts() {
  local promtool work untested
  promtool=$(hack/promtool.sh)
  work=$(mktemp -d)
  helm template polyvirt "$CHART" --namespace polyvirt-system --values "$CHART/ci/full.yaml" \
    --set metrics.prometheusRule.runbookUrl=RUNBOOKS --show-only templates/prometheusrule.yaml |
    sed -n '/^spec:/,$ s/^  //p' >"$work/rules.yaml"
  cp hack/alerts.test.yaml "$work"
  untested=$(sed -n 's/.*- alert: //p' "$work/rules.yaml" | while read -r name; do
    grep -q "alertname: $name" hack/alerts.test.yaml || echo "$name"
  done)
  { "$promtool" check rules "$work/rules.yaml" && "$promtool" test rules "$work/alerts.test.yaml"; } ||
    die "the alerts in $CHART/templates/prometheusrule.yaml are wrong, or hack/alerts.test.yaml is"
  rm -rf "$work"
  [ -z "$untested" ] || die "no test in hack/alerts.test.yaml for $untested"
  say "alerts: ok"
}

# Also in the variable that names the default image of providers, which is no field that kustomize knows.
deploy() {
  "$KUBECTL" kustomize config/default | sed "s|ghcr.io/polyvirt/polyvirt:[^\" ]*|${IMG:-&}|" |
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
    write "$MANIFESTS"
    write "$NAMESPACED" "${ONE_NAMESPACE[@]}"
    write "$MONITOR" "${AS_MONITOR[@]}"
    write "$ALERTS" "${AS_ALERTS[@]}"
    write "$POLICY" "${AS_POLICY[@]}"
    ;;
  deploy) deploy ;;
  # Not the namespace: somebody may have put VMs there.
  undeploy) "$KUBECTL" delete --ignore-not-found -f "$MANIFESTS" ;;
esac
