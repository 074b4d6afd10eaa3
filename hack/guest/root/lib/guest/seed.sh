# shellcheck shell=sh
# The NoCloud seed: a disk or CD labelled cidata with meta-data, user-data and network-config, iso9660 or vfat.
SEED=/run/seed

seed_device() {
  findfs LABEL=cidata 2>/dev/null || findfs LABEL=CIDATA 2>/dev/null
}

# Copies the seed, so that its disk can be taken away.
read_seed() {
  mkdir -m 0700 "$SEED"
  device=$(seed_device) || return
  mount -o ro -t iso9660 "$device" /mnt 2>/dev/null || mount -o ro -t vfat "$device" /mnt || return
  for name in meta-data user-data network-config; do
    [ ! -f "/mnt/$name" ] || cp "/mnt/$name" "$SEED/$name"
  done
  umount /mnt
  flat "$SEED/meta-data" >"$SEED/meta-data.flat"
  [ ! -f "$SEED/network-config" ] || flat "$SEED/network-config" | sed 's/^network\///' >"$SEED/network-config.flat"
  say "cidata=$device instance-id=$(meta_data instance-id) user-data-md5=$(md5sum <"$SEED/user-data" | cut -c1-32)"
}

# meta_data KEY [DEFAULT]
meta_data() {
  found=$(value_of "$SEED/meta-data.flat" "$1")
  echo "${found:-${2:-}}"
}
