# Grows the file system of a disk that has become larger, if there is no doubt which one that is. Runs in the guest, under any
# POSIX shell; the last line of its output is `grown WHAT` or `left WHY`.
#
#   $1  the serial number of the disk
#   $2  how many sectors of 512 bytes it has now
#
# Grown is a file system that is mounted for writing, on the whole disk or on its last partition. All else is left as it is.
serial=$1 sectors=$2
LC_ALL=C PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH

leave() {
  echo "left $*"
  exit 0
}

has() { command -v "$1" >/dev/null 2>&1 || leave "the guest has no $1"; }

# run PROGRAM...: what it says is told if it fails.
run() {
  said=$("$@" 2>&1) || leave "$1 failed: $(echo "$said" | tail -n 1)"
}

find_disk() {
  for folder in /sys/block/*; do
    if [ "$(cat "$folder/serial" 2>/dev/null)" = "$serial" ]; then echo "${folder##*/}"; fi
  done
}

# Guests notice a moment later that a disk has grown.
await_size() {
  waited=0
  while [ "$(cat "/sys/block/$disk/size")" -lt "$sectors" ]; do
    [ $waited -lt 10 ] || leave "the guest does not see that $disk has grown"
    waited=$((waited + 1))
    sleep 1
  done
}

# The last partition is the only one that can grow.
last_partition() {
  furthest=-1
  for folder in "/sys/block/$disk/$disk"*; do
    [ -e "$folder/partition" ] || continue
    start=$(cat "$folder/start")
    if [ "$start" -gt "$furthest" ]; then furthest=$start last=${folder##*/}; fi
  done
}

# Where the device is mounted, and as what. Of several places the first.
find_mount() {
  numbers=$(cat "/sys/class/block/$device/dev")
  while read -r _ _ of _ place options rest; do
    rest=" $rest"
    tail=${rest##* - }
    source=${tail#* }
    if [ "$of" = "$numbers" ] || [ "${source%% *}" = "/dev/$device" ]; then
      kind=${tail%% *} point=$place access=${options%%,*}
      return
    fi
  done </proc/self/mountinfo
  leave "nothing on $device is mounted"
}

grow_partition() {
  number=$(cat "/sys/class/block/$device/partition")
  said=$(growpart "/dev/$disk" "$number" 2>&1)
  # 1 says that there is nothing to do.
  [ $? -le 1 ] || leave "growpart failed: $(echo "$said" | tail -n 1)"
}

grow_file_system() {
  case $kind in
    ext2 | ext3 | ext4) run resize2fs "/dev/$device" ;;
    xfs) run xfs_growfs "$point" ;;
    btrfs) run btrfs filesystem resize max "$point" ;;
  esac
}

disk=$(find_disk)
case $disk in
  '') leave "the guest has no disk with the serial number $serial" ;;
  *[!a-z0-9]*) leave "the guest has several disks with the serial number $serial" ;;
esac
await_size
last=
last_partition
device=${last:-$disk}
[ -z "$(ls "/sys/class/block/$device/holders")" ] || leave "$device belongs to something larger, like LVM, RAID or encryption"
find_mount
case $kind in
  ext2 | ext3 | ext4) has resize2fs ;;
  xfs) has xfs_growfs ;;
  btrfs) has btrfs ;;
  *) leave "$device has a file system that is not known here: $kind" ;;
esac
case $point in *\\*) leave "$device is mounted at a place with an unusual name" ;; esac
[ "$access" = rw ] || leave "$device is mounted for reading only"
if [ -n "$last" ]; then
  has growpart
  grow_partition
fi
grow_file_system
echo "grown $kind on $device at $point"
