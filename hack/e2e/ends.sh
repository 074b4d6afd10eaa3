# shellcheck shell=bash
# Upgrade, uninstallation, other ways to install. Sourced by hack/e2e.sh.

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

# With rights in one namespace.
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
