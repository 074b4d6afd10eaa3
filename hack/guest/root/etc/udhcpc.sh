#!/bin/sh
# What udhcpc calls when a lease begins, changes or ends. The names of its variables are udhcpc's.
# shellcheck disable=SC2154
. /lib/guest/functions.sh

case $1 in
  deconfig) ip address flush dev "$interface" scope global ;;
  bound | renew)
    ip address replace "$ip/${mask:-24}" dev "$interface"
    for gateway in ${router:-}; do
      ip route replace default via "$gateway" dev "$interface" metric "${METRIC:-0}"
    done
    # shellcheck disable=SC2086 # A list.
    add_nameservers ${dns:-}
    [ "$1" = renew ] || say "ip $interface $ip/${mask:-24} dhcp"
    ;;
esac
exit 0
