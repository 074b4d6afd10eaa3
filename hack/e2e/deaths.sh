# shellcheck shell=bash
# Processes that die and certificates that change while there is work. Sourced by hack/e2e.sh.

vms_inside() { hack/cluster.sh enter find / -xdev -path '*empty-dir/tmp/vms/vms/*.json' -not -path '/proc/*' 2>/dev/null; }

kill_provider() {
  step "kill -9 of the provider in mid-create"
  apply_vm survivor inside
  await 30 "VM survivor is being made" vm_is survivor Provisioning
  signal KILL PROVIDER_NAME=inside
  await 90 "VM survivor is Running" vm_is survivor Running
  [ "$(vms_inside | wc -l)" = 2 ] || die "not two VMs on the hypervisor: $(vms_inside)"
}

provider_certificate() { kubectl get secret virtrigaud-provider-default-inside-tls -o 'jsonpath={.data.tls\.crt}'; }
authority() { kubectl get secret polyvirt-provider-ca --namespace "$NAMESPACE" -o 'jsonpath={.data.tls\.crt}'; }
rotation_is() { [ "$(kubectl get secret polyvirt-provider-ca --namespace "$NAMESPACE" -o 'jsonpath={.metadata.annotations.polyvirt\.io/ca-rotation}')" = "$1" ]; }
# Another authority signs, and the one before is forgotten.
is_rotated() { [ "$(authority)" != "$1" ] && rotation_is alone; }
connected_since() { kubectl get provider inside -o 'jsonpath={.status.connectedSince}'; }
is_connected_anew() {
  local now
  now=$(connected_since)
  [ -n "$now" ] && [ "$now" != "$1" ]
}
# Calls of the manager that leads which no provider answered.
unanswered() {
  kubectl get --raw "/api/v1/namespaces/$NAMESPACE/pods/$(leader | cut -d/ -f2):8080/proxy/metrics" |
    awk '/^virtrigaud_provider_rpc_requests_total/ && /code="(ProviderUnavailable|ProviderTimeout|CredentialsRefused)"/ { sum += $2 } END { print sum + 0 }'
}

# Each change passes the webhooks, goes over the link and comes back by the stream; the console goes through the gateway.
work_once() {
  local state
  for state in "Off Stopped" "On Running"; do
    kubectl patch virtualmachine remote --type merge --patch "{\"spec\": {\"powerState\": \"${state% *}\"}}" >/dev/null
    await 30 "VM remote is ${state#* }" vm_is remote "${state#* }" >/dev/null
    console default web >/dev/null
  done
}

# Certificates and the authority behind them change, those of provider, webhooks and gateway. One that is refused would show as
# a change that the API server refuses, a console that does not answer, or a provider that has to be connected to again.
rotation() {
  local certificate old since lost end rounds=0
  step "certificates and their authority are renewed under load"
  kubectl wait --for=condition=Ready provider/inside --timeout=60s
  certificate=$(provider_certificate) old=$(authority) since=$(connected_since) lost=$(unanswered)
  end=$((SECONDS + 420))
  until is_rotated "$old"; do
    [ "$SECONDS" -lt "$end" ] || die "the authority was not replaced"
    work_once
    rounds=$((rounds + 1))
  done
  [ "$(provider_certificate)" != "$certificate" ] || die "the provider has its old certificate still"
  [ "$(connected_since)" = "$since" ] || die "the connection broke"
  [ "$(unanswered)" = "$lost" ] || die "calls were lost: $lost before, $(unanswered) now"
  echo "another authority signs, the old one is forgotten, and none of $rounds rounds of calls was lost"
  # Whoever connects now is let in by the new certificates alone.
  signal KILL PROVIDER_NAME=inside
  # Kubernetes lets a container that was killed twice wait, and so does the manager with what does not answer.
  await 120 "the provider is connected anew" is_connected_anew "$since"
  work_once
  kubectl delete virtualmachine survivor --timeout=30s
}

lease() { kubectl get lease polyvirt-manager --namespace "$NAMESPACE" -o "jsonpath={.spec.$1}"; }
milliseconds() { date -d "${1:-now}" +%s%3N; }

# hand_over SIGNAL MOST: the process that leads gets the signal, and another leads after at most so many milliseconds.
hand_over() {
  local old begin took
  old=$(leader)
  begin=$(milliseconds)
  signal "$1" "POD_NAME=${old#pod/}"
  await 60 "another manager leads" other_leads "$old"
  took=$(($(milliseconds "$(lease acquireTime)") - begin))
  echo "it has led since $took ms after SIG$1"
  [ "$took" -le "$2" ] || die "that is more than $2 ms"
}

# A line for each manager: how often it was started again, and whether it is ready.
managers() {
  kubectl get pods --namespace "$NAMESPACE" --selector app.kubernetes.io/component=manager \
    -o 'jsonpath={range .items[*]}{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}{"\n"}{end}'
}
restarts() { managers | awk '{ sum += $1 } END { print sum + 0 }'; }

# all_managers_are_back RESTARTS: one was started again since there were so many, and both are ready. Kubernetes tells of a process
# that has ended a moment later, so that it is ready does not say that it is back.
all_managers_are_back() {
  [ "$(restarts)" -gt "$1" ] && [ "$(managers | grep -c ' true$')" -eq 2 ]
}

leaders() {
  local id before
  step "a manager that leads stops, another one is killed"
  id=$(vm_id web)
  before=$(restarts)
  hand_over TERM 2000
  await 60 "both managers are ready" all_managers_are_back "$before"
  hand_over KILL 20000
  make_vm db
  await 60 "VM web is Running" vm_is web Running
  [ "$(vm_id web)" = "$id" ] || die "VM web is another one now"
  await 60 "the gateway answers behind the API server" gateway_answers
}
