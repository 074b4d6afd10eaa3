# shellcheck shell=bash
# From nothing to VMs. Sourced by hack/e2e.sh.

start() {
  step "cluster"
  hack/cluster.sh up
  HELM=$(hack/go-tool.sh helm)
  step "image"
  IMG=$IMAGE hack/image.sh build
  hack/cluster.sh load dist/image.tar
}

# Certificates that grow old while one looks on. An authority needs three times as long as a rotation.
install_chart() {
  helm "$1" polyvirt charts/polyvirt --namespace "$NAMESPACE" --set image.tag=e2e --set image.pullPolicy=Never \
    --set replicaCount=2 --set certificateLifetime=75s --set authorityLifetime=248s \
    --set crdUpgrade.ttlSecondsAfterFinished=20 --wait --timeout 180s "${@:2}"
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

refusals() {
  local said
  step "admission"
  if said=$(sed -e 's/NAME/wrong/' -e 's/powerState: "On"/userData: {cloudInit: {inline: "#cloud-config\\n[:"}}/' hack/e2e/vm.yaml | kubectl apply -f - 2>&1); then
    die "a VM whose user data cannot be read was let in"
  fi
  echo "$said"
  said=$(sed -e 's/NAME/early/' -e 's/small/later/' hack/e2e/vm.yaml | kubectl apply --dry-run=server -f - 2>&1)
  grep -i warning <<<"$said" || die "no warning of a class that is not there: $said"
  # In earnest it could not be taken back: the Provider would wait for its VMs, and go.
  said=$(kubectl delete provider inside --dry-run=server 2>&1)
  echo "$said"
  grep -q "is used by .*remote" <<<"$said" || die "the warning does not name the VM that uses the Provider"
}
