# shellcheck shell=sh
# The NoCloud seed: a disk or CD labelled cidata with meta-data, user-data and network-config, iso9660 or vfat.
SEED=/run/seed

# SCSI devices may come a moment after their host; a guest without any need not wait for them.
seed_device() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    findfs LABEL=cidata 2>/dev/null || findfs LABEL=CIDATA 2>/dev/null || seed_cd && return
    [ -n "$(ls /sys/class/scsi_host 2>/dev/null)" ] || return
    sleep 0.1
  done
  return 1
}

# busybox' findfs does not look at CDs: their label stands at a fixed place.
seed_cd() {
  for device in /dev/sr*; do
    [ -b "$device" ] || continue
    case $(dd if="$device" bs=2048 skip=16 count=1 2>/dev/null | dd bs=1 skip=40 count=32 2>/dev/null) in
      cidata* | CIDATA*) echo "$device" && return ;;
    esac
  done
  return 1
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
