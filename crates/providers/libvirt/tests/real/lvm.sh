#!/bin/bash
# LVM as far as libvirt asks it, with files in the place of logical volumes: tests run where there is no device mapper. It is put over
# /usr/sbin/lvm, which goes by many names. FOLDER has the volume group: its name is that of the folder.
set -e
folder=FOLDER
group=${folder##*/}
extent=$((4 << 20))
size=$((16 << 30))
separator=,
arguments=("$@")

used() {
  local total=0 file
  for file in "$folder"/*; do
    [ -e "$file" ] && total=$((total + $(stat -c %s "$file")))
  done
  echo "$total"
}

volumes() {
  local file bytes name
  for file in "$folder"/*; do
    [ -e "$file" ] || continue
    name=${file##*/}
    # A device keeps its size, whatever is written to it.
    [ "$(stat -c %s "$file")" -ge "$(cat "$folder/.sizes/$name")" ] || truncate -s "$(cat "$folder/.sizes/$name")" "$file"
    bytes=$(stat -c %s "$file")
    printf '%s\n' "$name,,$(md5sum <<<"$name" | cut -c1-32),/dev/lab(0),linear,1,$bytes,$extent,$bytes,-wi-a-----" | tr , "$separator"
  done
}

create() {
  local name kib bytes
  while [ $# -gt 0 ]; do
    case $1 in
      --name) name=$2 && shift ;;
      -L) kib=${2%K} && shift ;;
    esac
    shift
  done
  bytes=$(((kib * 1024 + extent - 1) / extent * extent))
  [ "$(($(used) + bytes))" -le "$size" ] || { echo "Volume group \"$group\" has insufficient free space" >&2 && exit 5; }
  [ ! -e "$folder/$name" ] || { echo "Logical volume \"$name\" already exists" >&2 && exit 5; }
  mkdir -p "$folder/.sizes"
  echo "$bytes" >"$folder/.sizes/$name"
  truncate -s "$bytes" "$folder/$name"
}

remove() {
  local name=${1##*/}
  rm -f -- "$folder/$name" "$folder/.sizes/$name"
}

for place in "${!arguments[@]}"; do
  [ "${arguments[place]}" != --separator ] || separator=${arguments[place + 1]}
done
case ${0##*/} in
  lvs) volumes ;;
  vgs) echo "$size$separator$((size - $(used)))" ;;
  pvs) echo "  /dev/lab $group" ;;
  lvcreate) create "$@" ;;
  lvremove) remove "${!#}" ;;
esac
