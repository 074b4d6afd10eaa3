# shellcheck shell=sh
# What all programs of the guest share.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root

# One line for whoever reads the serial console; the same in /run/guest.log for whoever asks the agent.
say() {
  echo "GUEST $*" >>/run/guest.log
  echo "GUEST $*" >/dev/console
}

# wait_for_label LABEL: the device with that file system. Disks may come up to two seconds after their driver.
wait_for_label() {
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    findfs "LABEL=$1" 2>/dev/null && return
    sleep 0.1
  done
  return 1
}

# The names of the serial ports between guest and host, which udev would make.
link_ports() {
  mkdir -p /dev/virtio-ports
  for node in /sys/class/virtio-ports/*; do
    [ ! -s "$node/name" ] || ln -sf "/dev/${node##*/}" "/dev/virtio-ports/$(cat "$node/name")"
  done
}

add_nameservers() {
  for server; do
    grep -qsx "nameserver $server" /etc/resolv.conf || echo "nameserver $server" >>/etc/resolv.conf
  done
}

# flat FILE: the YAML of FILE as lines of path, tab, value.
flat() { awk -f /lib/guest/yaml.awk "$1" 2>/dev/null; }

# value_of FLAT PATH: one value, or nothing.
value_of() { awk -F '\t' -v path="$2" '$1 == path { sub(/^[^\t]*\t/, ""); print; exit }' "$1" 2>/dev/null; }

# values_under FLAT PATH: the scalars of a list, in order.
values_under() { awk -F '\t' -v path="$2/" 'index($1, path) == 1 && substr($1, length(path) + 1) ~ /^[0-9]+$/ { print $2 }' "$1"; }

# keys_under FLAT PATH: the next part of each path below PATH, once each.
keys_under() {
  awk -F '\t' -v path="${2:+$2/}" 'path == "" || index($1, path) == 1 {
    key = substr($1, length(path) + 1)
    sub("/.*", "", key)
    if (!(key in seen)) { seen[key] = 1; print key }
  }' "$1"
}
