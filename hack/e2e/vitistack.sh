# shellcheck shell=bash
# The commands of the documents of Viti Stack's KubeVirt operator, with our chart in the place of theirs, as far as they need a
# node. VMs in clusters with KubeVirt are seen by the tests of crates/dialects. Sourced by hack/e2e.sh.

OPERATOR=kubevirt-operator-system

operator_is_ready() { kubectl wait --for=condition=Available deployment --all -n "$OPERATOR" --timeout=1s; }
operator_is_gone() { nothing_is_left && [ -z "$(kubectl get pods -n "$OPERATOR" --output name)" ]; }
operator_says() { kubectl logs -n kubevirt-operator-system deployment/kubevirt-operator-polyvirt-manager | grep -F -- "$1"; }
machine_says() { kubectl describe machine "$1" | grep -F -- "$2"; }

vitistack() {
  vitistack_install
  vitistack_clusters
  vitistack_trouble
  vitistack_uninstall
}

vitistack_install() {
  step "Viti Stack: install, health"
  helm repo add vitistack "$SHELF" >/dev/null
  helm install kubevirt-operator vitistack/polyvirt \
    --namespace kubevirt-operator-system \
    --create-namespace \
    --set 'extraEnv[0].name=KUBEVIRT_CONFIGS_NAMESPACE' --set 'extraEnv[0].value=kubevirt-configs' >/dev/null
  await 90 "the manager is ready" operator_is_ready
  forward "$OPERATOR" deployment/kubevirt-operator-polyvirt-manager 8081
  serves /healthz
  serves /readyz
  forward_ends
}

# Pods have no way to the outside, so the cluster of the documents does not answer.
vitistack_clusters() {
  step "Viti Stack: clusters, Machines"
  kubectl create namespace kubevirt-configs
  kubectl apply -f config/crd/kubevirtconfigs.vitistack.io.yaml
  kubectl apply -f hack/e2e/vitistack.yaml
  await 60 "the Machine tells what is wrong" machine_says basic-vm 'Failed to get KubeVirt client for machine'
}

vitistack_trouble() {
  step "Viti Stack: metrics, debug commands"
  forward "$OPERATOR" deployment/kubevirt-operator-polyvirt-manager 8080
  serves /metrics kubevirt_operator_reconciliation_duration_seconds
  forward_ends
  kubectl get kubevirtconfigs -n kubevirt-configs | grep Disconnected
  kubectl describe kubevirtconfig cluster-east -n kubevirt-configs | grep 'Last Error'
  kubectl get secret cluster-east-kubeconfig -n kubevirt-configs -o yaml | grep kubeconfig: >/dev/null
  kubectl get machines -A | grep basic-vm
  kubectl describe machine basic-vm | grep vitistack.io/kubevirt-config
  kubectl get machine basic-vm -o yaml | grep failureReason:
  kubectl get vm,pvc -l vitistack.io/machine=basic-vm | grep basic-vm
  kubectl get pods -n kubevirt-operator-system
  await 10 "the log tells of the definitions" operator_says 'machines.vitistack.io has all fields'
  operator_says basic-vm | grep -c '"controller":"Machine"'
}

# The cluster will not come back: what may be left behind there is said in an event.
vitistack_uninstall() {
  step "Viti Stack: remove a Machine whose cluster is gone, uninstall"
  kubectl annotate machine basic-vm vitistack.io/force-delete=true
  kubectl delete machine basic-vm --timeout=60s
  kubectl delete -f hack/e2e/vitistack.yaml --ignore-not-found --timeout=60s
  helm uninstall kubevirt-operator -n kubevirt-operator-system
  kubectl delete jobs -n kubevirt-operator-system -l app.kubernetes.io/component=crd-upgrade >/dev/null
  await 90 "nothing of the release is left" operator_is_gone
}
