# shellcheck shell=sh
# The network: version 2 of cloud-init's network-config as far as Polyvirt writes it, DHCP for each card that it does not
# name. Understood: match by macaddress or name, dhcp4, addresses, gateway4, gateway6, routes (to, via, on-link),
# nameservers.addresses, mtu, dhcp4-overrides.route-metric. Anything else is named on the console and ignored.
NETWORK=/run/seed/network-config.flat
UNDERSTOOD='match/macaddress match/name dhcp4 addresses/ gateway4 gateway6 routes/ nameservers/addresses/ mtu dhcp4-overrides/route-metric'

set_up_network() {
  ip link set lo up
  report_ignored
  for card in /sys/class/net/*; do
    card=${card##*/}
    [ "$card" = lo ] || set_up_card "$card"
  done
}

report_ignored() {
  [ -f "$NETWORK" ] || return
  awk -F '\t' -v understood="$UNDERSTOOD" '
    BEGIN { count = split(understood, known, " ") }
    /^ethernets\// {
      key = $1
      sub("^ethernets/[^/]*/", "", key)
      for (i = 1; i <= count; i++) if (key == known[i] || (known[i] ~ /\/$/ && index(key, known[i]) == 1)) next
    }
    $1 != "version" { print $1 }' "$NETWORK" |
    while read -r path; do say "network-config ignored $path"; done
}

set_up_card() {
  mac=$(cat "/sys/class/net/$1/address")
  entry=$(entry_of "$1" "$mac")
  mtu=$(setting mtu)
  [ -z "$mtu" ] || ip link set "$1" mtu "$mtu"
  ip link set "$1" up
  set_addresses "$1"
  case $entry:$(setting dhcp4) in
    :* | *:true | *:yes | *:on) start_dhcp "$1" ;;
  esac
}

# entry_of CARD MAC: the part of the configuration that means this card, or nothing.
entry_of() {
  [ -f "$NETWORK" ] || return
  for id in $(keys_under "$NETWORK" ethernets); do
    entry=ethernets/$id
    wanted_mac=$(setting match/macaddress | tr '[:upper:]' '[:lower:]')
    wanted_name=$(setting match/name)
    [ -n "$wanted_mac$wanted_name" ] || wanted_name=$id
    # shellcheck disable=SC2254 # The name is a pattern.
    case $1 in ${wanted_name:-*}) ;; *) continue ;; esac
    [ "${wanted_mac:-$2}" != "$2" ] || { echo "$entry" && return; }
  done
}

# setting KEY: its value for the card at hand.
setting() { [ -z "$entry" ] || value_of "$NETWORK" "$entry/$1"; }

set_addresses() {
  [ -n "$entry" ] || return 0
  for address in $(values_under "$NETWORK" "$entry/addresses"); do
    ip address add "$address" dev "$1"
    say "ip $1 $address static"
  done
  for gateway in $(setting gateway4) $(setting gateway6); do
    ip route replace default via "$gateway" dev "$1"
  done
  for route in $(keys_under "$NETWORK" "$entry/routes"); do
    add_route "$1" "$(setting "routes/$route/to")" "$(setting "routes/$route/via")" "$(setting "routes/$route/on-link")"
  done
  # shellcheck disable=SC2046 # A list.
  add_nameservers $(values_under "$NETWORK" "$entry/nameservers/addresses")
}

# add_route CARD TO VIA ON-LINK. A gateway outside the network of the card is first made a neighbour.
add_route() {
  case $2 in 0.0.0.0/0 | ::/0) set -- "$1" default "$3" "$4" ;; esac
  [ "$4" != true ] || ip route add "$3" dev "$1"
  ip route replace "$2" via "$3" dev "$1"
}

start_dhcp() {
  METRIC=$(setting dhcp4-overrides/route-metric) \
    udhcpc -i "$1" -t 10 -T 1 -A 2 -b -S -s /etc/udhcpc.sh -x "hostname:$(hostname)" >/dev/null 2>&1 &
}
