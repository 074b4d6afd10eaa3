#!/usr/bin/env bash
# The whole way on a real node: image, chart, VMs, death of a manager, upgrade, uninstallation, plain manifests.
# Needs root, starts a cluster by hack/cluster.sh and removes it in the end, whatever happens.
#
#   KEEP=1          leaves the cluster running, to look around
#   PROFILE         Cargo profile of the image: fast
#   PROGRAM         a program that is built already, instead: CI takes the one that its tests have built
set -euo pipefail
cd "$(dirname "$0")/.."

IMAGE=ghcr.io/polyvirt/polyvirt:e2e
NAMESPACE=polyvirt-system
CRDS=10
export KUBECONFIG=$PWD/.state/cluster/kubeconfig PROFILE=${PROFILE:-fast}
unset POLYVIRT_CLUSTER

STEP_BEGAN=0
# step WORDS: ends the step before, and begins this one.
step() {
  step_done
  STEP_BEGAN=$SECONDS STEP=$1
  printf '\n==> e2e: %s\n' "$1"
}
step_done() { [ -z "${STEP:-}" ] || printf '==> e2e: %s: ok, %d s\n' "$STEP" $((SECONDS - STEP_BEGAN)); }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# await SECONDS WHAT COMMAND...
await() {
  local seconds=$1 what=$2 end
  shift 2
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || die "$what: not within $seconds s"
    sleep 0.5
  done
  echo "$what"
}

tell_why() {
  printf '\n==> e2e: %s: FAILED after %d s. What the cluster says:\n' "${STEP:-start}" $((SECONDS - STEP_BEGAN)) >&2
  kubectl get pods,jobs,virtualmachines,providers --all-namespaces -o wide
  kubectl get events --all-namespaces --sort-by=.lastTimestamp | tail -n 20
  kubectl logs --namespace "$NAMESPACE" --selector app.kubernetes.io/part-of=polyvirt --prefix --tail 30
}

finish() {
  local code=$?
  [ "$code" -eq 0 ] || tell_why >&2 || true
  if [ -n "${KEEP:-}" ]; then
    echo "the cluster stays: export KUBECONFIG=$KUBECONFIG; hack/cluster.sh down removes it"
  else
    hack/cluster.sh down
  fi
  exit "$code"
}

helm() { "$HELM" "$@"; }
install_chart() {
  helm "$1" polyvirt charts/polyvirt --namespace "$NAMESPACE" --set image.tag=e2e --set image.pullPolicy=Never \
    --set replicaCount=2 --set certificateLifetime=75s --set crdUpgrade.ttlSecondsAfterFinished=20 --wait --timeout 180s "${@:2}"
}

vm_is() { [ "$(kubectl get virtualmachine "$1" -o 'jsonpath={.status.phase}')" = "$2" ]; }
vm_id() { kubectl get virtualmachine "$1" -o 'jsonpath={.status.id}'; }
# apply_vm NAME [PROVIDER]
apply_vm() { sed -e "s/NAME/$1/" -e "s/elsewhere/${2:-elsewhere}/" hack/e2e/vm.yaml | kubectl apply -f -; }
make_vm() {
  apply_vm "$@"
  await 60 "VM $1 is Running" vm_is "$1" Running
}
leader() { kubectl get pods --namespace "$NAMESPACE" --selector polyvirt.io/leader --output name; }
has_one_leader() { [ "$(leader | wc -l)" = 1 ]; }
other_leads() { has_one_leader && [ "$(leader)" != "$1" ]; }
gateway_answers() { kubectl get --raw /apis/subresources.polyvirt.io/v1; }

metrics_are_served() {
  kubectl get --raw "/api/v1/namespaces/$NAMESPACE/services/polyvirt-metrics:metrics/proxy/metrics" | grep leader_election_master_status
}
console() { kubectl get --raw "/apis/subresources.polyvirt.io/v1/namespaces/$1/virtualmachines/$2/log"; }

# kill_process VARIABLE: kill -9 of the process of ours that has it in its environment, as the node sees it.
kill_process() {
  # shellcheck disable=SC2016
  hack/cluster.sh enter bash -c 'for pid in $(pgrep -x polyvirt); do
    if tr "\0" "\n" <"/proc/$pid/environ" | grep -qx "$1"; then kill -KILL "$pid" && echo "killed the process with $1"; fi
  done' _ "$1"
}

# All that carries the release's label, in the namespace and in the cluster. Pods and jobs take a moment to go.
left_over() {
  local kinds
  kinds=$(kubectl api-resources --verbs=list,delete --output=name 2>/dev/null | grep -v -e '^events' -e infra.virtrigaud.io | paste -sd,)
  kubectl get "$kinds" --all-namespaces --ignore-not-found --selector app.kubernetes.io/part-of=polyvirt --output name || echo "cannot be listed"
  kubectl get secrets --namespace "$NAMESPACE" --field-selector type=kubernetes.io/tls --output name
}
nothing_is_left() { [ -z "$(left_over)" ]; }

have_crds() { [ "$(kubectl get crd --output name | grep -c infra.virtrigaud.io)" = "$CRDS" ]; }
columns() { kubectl get crd vmclasses.infra.virtrigaud.io -o 'jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}'; }

start() {
  step "cluster"
  hack/cluster.sh up
  HELM=$(hack/go-tool.sh helm)
  step "image"
  IMG=$IMAGE hack/image.sh build
  hack/cluster.sh load dist/image.tar
}

# The namespace lets in only pods that satisfy the standard "restricted".
install() {
  step "helm install, two managers"
  kubectl apply -f config/default/namespace.yaml
  install_chart install >/dev/null
  kubectl get pods --namespace "$NAMESPACE" --label-columns polyvirt.io/leader
  kubectl get jobs --namespace "$NAMESPACE" --selector app.kubernetes.io/component=crd-upgrade
  have_crds || die "not all CRDs are there"
  await 30 "one manager leads" has_one_leader
  await 60 "the gateway answers behind the API server" gateway_answers
  await 30 "metrics are served" metrics_are_served
}

first_vm() {
  step "a provider over gRPC, and a VM"
  sed "s|IMAGE|$IMAGE|" hack/e2e/hypervisor.yaml | kubectl apply -f -
  kubectl wait --for=condition=Ready pod/hypervisor --timeout=60s
  make_vm web
  kubectl get providers,virtualmachines
  console default web | grep boot
}

# A provider in a pod of its own, with certificates on both sides.
remote_provider() {
  step "a provider in a pod of its own, and a VM"
  kubectl apply -f hack/e2e/remote.yaml
  kubectl wait --for=condition=Ready provider/inside --timeout=90s
  kubectl get deployments,services,networkpolicies,serviceaccounts,secrets --selector app.kubernetes.io/component=provider
  kubectl get provider inside -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}{"\n"}{end}'
  make_vm remote inside
}

provider_certificate() { kubectl get secret virtrigaud-provider-default-inside-tls -o 'jsonpath={.data.tls\.crt}'; }
is_renewed() { [ "$(provider_certificate)" != "$1" ]; }
vms_inside() { hack/cluster.sh enter find / -xdev -path '*empty-dir/tmp/vms/vms/*.json' -not -path '/proc/*' 2>/dev/null; }

kill_provider() {
  step "kill -9 of the provider in mid-create"
  apply_vm survivor inside
  await 30 "VM survivor is being made" vm_is survivor Provisioning
  kill_process PROVIDER_NAME=inside
  await 90 "VM survivor is Running" vm_is survivor Running
  [ "$(vms_inside | wc -l)" = 2 ] || die "not two VMs on the hypervisor: $(vms_inside)"
}

# Every change is a call over the link. A certificate that is refused would show as a provider that does not answer.
rotation() {
  local before since state end
  step "certificates are renewed under load"
  kubectl wait --for=condition=Ready provider/inside --timeout=60s
  before=$(provider_certificate)
  since=$(kubectl get provider inside -o 'jsonpath={.status.connectedSince}')
  end=$((SECONDS + 120))
  until is_renewed "$before"; do
    [ "$SECONDS" -lt "$end" ] || die "the certificate was not renewed"
    for state in "Off Stopped" "On Running"; do
      kubectl patch virtualmachine remote --type merge --patch "{\"spec\": {\"powerState\": \"${state% *}\"}}" >/dev/null
      await 30 "VM remote is ${state#* }" vm_is remote "${state#* }" >/dev/null
    done
  done
  # The old one has expired by then; the new one serves.
  sleep 30
  kubectl delete virtualmachine survivor --timeout=30s
  [ "$(kubectl get provider inside -o 'jsonpath={.status.connectedSince}')" = "$since" ] || die "the connection broke"
  echo "the certificate was renewed and no call was lost"
}

refusals() {
  local said
  step "admission"
  if said=$(sed -e 's/NAME/wrong/' -e 's/powerState: "On"/userData: {cloudInit: {inline: "#cloud-config\\n[:"}}/' hack/e2e/vm.yaml | kubectl apply -f - 2>&1); then
    die "a VM whose user data cannot be read was let in"
  fi
  echo "$said"
  said=$(sed -e 's/NAME/early/' -e 's/small/later/' hack/e2e/vm.yaml | kubectl apply --dry-run=server -f - 2>&1)
  grep -i warning <<<"$said" || die "no warning of a class that is not there: $said"
  if said=$(kubectl delete provider inside 2>&1); then die "a Provider with VMs was deleted"; fi
  echo "$said"
}

kill_leader() {
  local old id
  step "kill -9 of the manager that leads"
  old=$(leader)
  id=$(vm_id web)
  kill_process "POD_NAME=${old#pod/}"
  await 60 "another manager leads" other_leads "$old"
  make_vm db
  await 60 "VM web is Running" vm_is web Running
  [ "$(vm_id web)" = "$id" ] || die "VM web is another one now"
  await 60 "the gateway answers behind the API server" gateway_answers
}

upgrade() {
  local id
  step "helm upgrade, CRDs included"
  id=$(vm_id web)
  kubectl patch crd vmclasses.infra.virtrigaud.io --type json \
    --patch '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]'
  [ -z "$(columns)" ] || die "the CRD was not changed"
  install_chart upgrade --set logging.level=debug >/dev/null
  [ -n "$(columns)" ] || die "the CRD was not brought up to date"
  await 60 "one manager leads" has_one_leader
  make_vm cache
  [ "$(vm_id web)" = "$id" ] || die "VM web is another one now"
}

uninstall() {
  step "helm uninstall"
  [ "$(left_over | grep -c manager)" -ge 8 ] || die "the search for what is left finds too little: $(left_over)"
  helm uninstall polyvirt --namespace "$NAMESPACE" --wait
  await 90 "nothing of the release is left" nothing_is_left
  have_crds || die "CRDs are gone"
  [ "$(kubectl get virtualmachines --output name | wc -l)" = 4 ] || die "VirtualMachines are gone"
  kubectl wait --for=condition=Available deployment/virtrigaud-provider-default-inside --timeout=10s
}

# Named as users of VirtRigaud are used to, with rights in one namespace.
one_namespace() {
  local account=system:serviceaccount:virtrigaud-system:virtrigaud-polyvirt-manager
  step "helm install for one namespace"
  kubectl create namespace team-a
  helm install virtrigaud charts/polyvirt --namespace virtrigaud-system --create-namespace --set image.tag=e2e \
    --set providers.vsphere.enabled=false --set 'scope.namespaces={team-a}' --set crdUpgrade.enabled=false --wait >/dev/null
  kubectl auth can-i get secrets --namespace team-a --as "$account"
  if kubectl auth can-i get secrets --namespace default --as "$account"; then die "the manager can read Secrets elsewhere"; fi
  sed 's/namespace: default/namespace: team-a/' config/samples/mock.yaml | kubectl apply -f - >/dev/null
  kubectl wait --for=jsonpath='{.status.phase}'=Running virtualmachine/web --namespace team-a --timeout=60s
  console team-a web | grep boot
  kubectl delete virtualmachine web --namespace team-a --timeout=60s
  helm uninstall virtrigaud --namespace virtrigaud-system --wait
  await 90 "nothing of the release is left" nothing_is_left
}

provider_is_gone() {
  [ -z "$(kubectl get pods,deployments,services,secrets --selector app.kubernetes.io/component=provider --output name)" ]
}

plain_manifests() {
  local id
  step "make deploy, make undeploy"
  id=$(vm_id web)
  make deploy IMG=$IMAGE >/dev/null
  kubectl rollout status deployment/polyvirt-manager --namespace "$NAMESPACE" --timeout=90s
  kubectl delete virtualmachine db cache --timeout=60s
  make_vm late
  [ "$(vm_id web)" = "$id" ] || die "VM web is another one now"
  kubectl delete virtualmachine web late remote --timeout=60s
  kubectl delete provider inside --timeout=60s
  await 60 "the pods of the provider are gone" provider_is_gone
  make undeploy >/dev/null
  await 90 "nothing is left" nothing_is_left
}

trap finish EXIT
start
install
first_vm
remote_provider
kill_provider
rotation
refusals
kill_leader
upgrade
uninstall
one_namespace
plain_manifests
step_done
printf '\ne2e: all passed, %d s\n' "$SECONDS"
