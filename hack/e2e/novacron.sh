# shellcheck shell=bash
# The commands of the README of NovaCron's operator, with our names in the place of theirs. Sourced by hack/e2e.sh.

nova() { kubectl get virtualmachines.novacron.io my-vm -o "jsonpath={.status.$1}"; }
nova_is() { [ "$(nova phase)" = "$1" ]; }
nova_events() { kubectl get events --field-selector involvedObject.name=my-vm | grep "$1"; }

novacron() {
  novacron_install
  novacron_vm
  novacron_trouble
  novacron_remove
}

novacron_install() {
  step "NovaCron's README: install, verify"
  kubectl apply -f config/crd/bases/ >/dev/null
  kubectl apply -f config/manager/ >/dev/null
  kubectl rollout status deployment/polyvirt-manager -n polyvirt-system --timeout=90s
  kubectl get pods -n polyvirt-system
  kubectl get crd virtualmachines.novacron.io
  # There are two Providers by now.
  kubectl set env deployment/polyvirt-manager -n polyvirt-system NOVACRON_DEFAULT_PROVIDER=elsewhere
  kubectl rollout status deployment/polyvirt-manager -n polyvirt-system --timeout=90s
  # The one before has no default, and would choose by itself.
  await 60 "one manager is left" one_manager
}

one_manager() { [ "$(kubectl get pods -n polyvirt-system -o name | grep -c polyvirt-manager)" = 1 ]; }

novacron_vm() {
  step "NovaCron's README: a VM, stopped and started"
  kubectl apply -f hack/e2e/my-vm.yaml
  await 60 "my-vm runs" nova_is Running
  kubectl get virtualmachines.novacron.io
  kubectl get vm my-vm
  kubectl patch virtualmachines.novacron.io my-vm --type merge -p '{"spec":{"running":false}}'
  await 60 "my-vm is stopped" nova_is Stopped
  kubectl patch virtualmachines.novacron.io my-vm --type merge -p '{"spec":{"running":true}}'
  await 60 "my-vm runs" nova_is Running
}

novacron_trouble() {
  step "NovaCron's README: logs, events, metrics"
  kubectl logs -n polyvirt-system deployment/polyvirt-manager | grep -c my-vm
  kubectl describe virtualmachines.novacron.io my-vm | grep -A3 'Reason:'
  kubectl get events --field-selector involvedObject.name=my-vm
  nova_events Running >/dev/null || die "no event of my-vm"
  kubectl describe nodes | grep -A5 'Allocatable:'
  forward polyvirt-system service/polyvirt-metrics 8080
  serves /metrics 'novacron_vm_total{phase="Running"} 1'
  serves /metrics novacron_reconcile_total
  serves /metrics novacron_reconcile_duration_seconds_count
  forward_ends
}

novacron_remove() {
  step "NovaCron's README: delete the VM, remove the operator"
  kubectl delete virtualmachines.novacron.io my-vm --timeout=60s
  kubectl delete -f config/manager/polyvirt.yaml >/dev/null
  await 90 "nothing is left" nothing_is_left
}
