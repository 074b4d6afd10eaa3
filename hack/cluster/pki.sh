#!/usr/bin/env bash
# Makes the certificates of the cluster and a kubeconfig for each of its programs, valid for a week.
set -euo pipefail

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh
cd "$STATE/pki"

DAYS=7

authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days $DAYS -subj "/CN=$1" \
    -keyout "$1.key" -out "$1.crt" 2>/dev/null
}

# issue AUTHORITY NAME SUBJECT [ALTERNATIVE-NAMES]
issue() {
  local usage=clientAuth names=''
  if [ $# -gt 3 ]; then
    usage=serverAuth
    names="subjectAltName=$4"
  fi
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$3" -keyout "$2.key" -out "$2.csr" 2>/dev/null
  printf 'extendedKeyUsage=%s\n%s\n' "$usage" "$names" >"$2.ext"
  openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days $DAYS -out "$2.crt" \
    -extfile "$2.ext" 2>/dev/null
  # Once, on a busy machine, a server's certificate came out without names, and the node died of it.
  [ -z "$names" ] || openssl x509 -in "$2.crt" -noout -ext subjectAltName 2>/dev/null | grep 'IP Address' >/dev/null ||
    die "the certificate $STATE/pki/$2.crt has no names"
}

# kubeconfig NAME FILE
kubeconfig() {
  cat >"$2" <<YAML
apiVersion: v1
kind: Config
current-context: $NODE
contexts: [{name: $NODE, context: {cluster: $NODE, user: $1}}]
clusters: [{name: $NODE, cluster: {server: "$SERVER", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
YAML
  chmod 0600 "$2"
}

authority ca
authority front-proxy-ca
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out accounts.key 2>/dev/null
issue ca apiserver /CN=kube-apiserver \
  "IP:$NODE_IP,IP:$KUBERNETES,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
issue ca apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
issue front-proxy-ca front-proxy-client /CN=front-proxy-client
issue ca admin /O=system:masters/CN=admin
issue ca kubelet "/O=system:nodes/CN=system:node:$NODE"
for name in kube-controller-manager kube-scheduler kube-proxy coredns; do
  issue ca "$name" "/CN=system:$name"
done
for name in kubelet kube-controller-manager kube-scheduler kube-proxy coredns; do
  kubeconfig "$name" "$STATE/etc/$name.kubeconfig"
done
kubeconfig admin "$KUBECONFIG"
