# shellcheck shell=bash
# What the steps of hack/e2e.sh share. Sourced.

IMAGE=ghcr.io/polyvirt/polyvirt:e2e
NAMESPACE=polyvirt-system
# One file for each kind of the group.
CRDS=$(find config/crd -maxdepth 1 -name "*.infra.virtrigaud.io.yaml" | wc -l)

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
  [ -z "${SHELF_PID:-}" ] || kill "$SHELF_PID" 2>/dev/null || true
  [ -z "${FORWARD_PID:-}" ] || kill "$FORWARD_PID" 2>/dev/null || true
  if [ -n "${KEEP:-}" ]; then
    echo "the cluster stays: export KUBECONFIG=$KUBECONFIG; hack/cluster.sh down removes it"
  else
    hack/cluster.sh down
  fi
  exit "$code"
}

helm() { "$HELM" "$@"; }

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

# forward NAMESPACE WHAT PORT: opens a port of this machine that leads there, and sets FORWARDED to its address.
forward() {
  local said=$PWD/.state/cluster/forwarded
  : >"$said"
  kubectl port-forward --namespace "$1" "$2" ":$3" >"$said" &
  FORWARD_PID=$!
  await 20 "port $3 of $2 is forwarded" grep 127.0.0.1: "$said"
  FORWARDED=http://$(grep -o '127.0.0.1:[0-9]*' "$said" | head -n 1)
}
forward_ends() {
  kill "$FORWARD_PID" && wait "$FORWARD_PID" 2>/dev/null || true
  FORWARD_PID=
}
answers() { curl --fail --silent --show-error --max-time 10 "$FORWARDED$1" | grep -- "${2:-.}" >/dev/null; }
# serves PATH [TEXT]: what was forwarded answers 200, with the text, now or in a moment.
serves() {
  local end=$((SECONDS + 20))
  until answers "$@"; do
    [ "$SECONDS" -lt "$end" ] || die "$1 does not answer${2:+ with $2}"
    sleep 0.5
  done
}

console() { kubectl get --raw "/apis/subresources.polyvirt.io/v1/namespaces/$1/virtualmachines/$2/log"; }

# signal SIGNAL VARIABLE: to the process of ours that has it in its environment, as the node sees it.
signal() {
  # shellcheck disable=SC2016
  hack/cluster.sh enter bash -c 'for pid in $(pgrep -x polyvirt); do
    if tr "\0" "\n" <"/proc/$pid/environ" | grep -x "$2" >/dev/null; then kill -s "$1" "$pid" && echo "SIG$1 to the process with $2"; fi
  done' _ "$1" "$2"
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
