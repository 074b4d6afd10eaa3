# shellcheck shell=bash
# The commands that users of VirtRigaud know from its README, word for word with our chart in the place of theirs. Sourced by hack/e2e.sh.

SEEDS=virtrigaud-system

# A repository of charts, as helm repo add wants one. kubectl serves its files.
shelf() {
  local folder=$PWD/.state/cluster/charts
  mkdir -p "$folder"
  helm package charts/polyvirt --destination "$folder" >/dev/null
  helm repo index "$folder"
  kubectl proxy --port 0 --www "$folder" --www-prefix /charts/ >"$folder/served" &
  SHELF_PID=$!
  await 20 "there is a repository of charts" grep 127.0.0.1: "$folder/served"
  export HELM_CONFIG_HOME=$folder/config HELM_CACHE_HOME=$folder/cache HELM_DATA_HOME=$folder/data
  SHELF=http://$(grep -o '127.0.0.1:[0-9]*' "$folder/served")/charts
  helm repo add virtrigaud "$SHELF"
  helm repo update
}

# The job that upgraded the CRDs can be looked at for an hour; nobody waits for that here.
seeds_uninstall() {
  helm uninstall virtrigaud -n virtrigaud-system
  kubectl delete jobs -n virtrigaud-system -l app.kubernetes.io/component=crd-upgrade >/dev/null
  await 90 "nothing of the release is left" seeds_are_gone
}

seeds_are_ready() { kubectl wait --for=condition=Available deployment --all -n "$SEEDS" --timeout=1s; }
seeds_are_gone() { nothing_is_left && [ -z "$(kubectl get pods -n "$SEEDS" --output name)" ]; }
deployed() { kubectl get deployment virtrigaud-provider-default-libvirt-kvm -o "jsonpath=$1"; }
runs_image() { [ "$(deployed '{.spec.template.spec.containers[0].image}')" = "$1" ]; }

seeds_install() {
  step "VirtRigaud's README: install, verify, upgrade"
  # The image as an installation that is told nothing looks for it.
  hack/cluster.sh tag "$IMAGE" "ghcr.io/polyvirt/polyvirt:$(sed -n 's/^appVersion: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' charts/polyvirt/Chart.yaml)"
  shelf
  helm install virtrigaud virtrigaud/polyvirt \
    -n virtrigaud-system --create-namespace \
    --set providers.vsphere.enabled=false \
    --set providers.libvirt.enabled=false \
    --set providers.proxmox.enabled=false >/dev/null
  await 90 "the manager is ready" seeds_are_ready
  kubectl get pods -n virtrigaud-system
  kubectl get crd | grep virtrigaud
  kubectl get jobs -n virtrigaud-system -l app.kubernetes.io/component=crd-upgrade | grep Complete
  helm upgrade virtrigaud virtrigaud/polyvirt -n virtrigaud-system >/dev/null
  await 90 "the manager is ready" seeds_are_ready
}

seeds_provider() {
  local image=ghcr.io/projectbeskar/virtrigaud/provider-libvirt
  step "VirtRigaud's README: a Provider, and another image for it"
  kubectl create secret generic libvirt-creds -n default \
    --from-literal=username=your-ssh-username \
    --from-literal=password='your-ssh-password'
  kubectl apply -f hack/e2e/virtrigaud-provider.yaml
  await 60 "the Provider has a Deployment" runs_image "$image:latest"
  [ "$(deployed '{.spec.template.spec.containers[0].ports[?(@.name=="grpc")].containerPort}')" = 9090 ] || die "the port does not act"
  [ "$(deployed '{.spec.template.spec.volumes[?(@.name=="provider-credentials")].secret.secretName}')" = libvirt-creds ] || die "no credentials"
  kubectl patch provider libvirt-kvm -n default --type=merge \
    -p '{"spec":{"runtime":{"image":"ghcr.io/projectbeskar/virtrigaud/provider-libvirt:v0.3.0"}}}'
  await 60 "its image is the new one" runs_image "$image:v0.3.0"
  kubectl delete provider libvirt-kvm -n default --timeout=60s
  kubectl delete secret libvirt-creds -n default
}

seeds_trouble() {
  step "VirtRigaud's README: CRDs are missing"
  if helm get values virtrigaud -n virtrigaud-system | grep skip-crds; then die "nobody has set skip-crds"; fi
  kubectl apply -f charts/polyvirt/crds/ >/dev/null
  seeds_uninstall
  helm install virtrigaud virtrigaud/polyvirt -n virtrigaud-system --create-namespace >/dev/null
  await 90 "the manager is ready" seeds_are_ready
  seeds_uninstall
}
