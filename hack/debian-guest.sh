#!/usr/bin/env bash
# Builds a real Debian with the real cloud-init, and sees whether it takes what our seeds tell it. Slow: minutes to build,
# minutes to boot without KVM; so it is a check of its own and no part of the tests. Needs root, for mmdebstrap and mke2fs.
#
#   hack/debian-guest.sh build     makes the image if it is not in the cache, and prints its path
#   hack/debian-guest.sh check     boots it with a seed of polyvirt-disks, as a FAT disk and as a CD
#
#   POLYVIRT_CACHE                 other cache than ~/.cache/polyvirt
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
SUITE=bookworm
PACKAGES=systemd-sysv,dbus,linux-image-cloud-amd64,cloud-init,cloud-guest-utils,netplan.io,iproute2,qemu-guest-agent
SYSTEM_MIB=1536
BOOT_MIB=96
MAC=52:54:00:ab:00:01
ADDRESS=10.0.2.77
PATIENCE=900

export PATH=$PATH:/usr/sbin:/sbin
# shellcheck source-path=SCRIPTDIR source=guest/disk.sh
. "$HERE/guest/disk.sh"

say() { printf '%s debian-guest: %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

require() {
  local name
  [ "$(id -u)" = 0 ] || die "run it as root: mmdebstrap makes files of many owners"
  for name in mmdebstrap mkfs.ext4 mkfs.vfat mcopy sfdisk syslinux qemu-img; do
    command -v "$name" >/dev/null || die "no $name: apt-get install mmdebstrap, and run hack/packages.sh"
  done
}

# What the hooks do: the root file system by its label, no search for clouds, and an identity only at first boot.
install_debian() {
  # shellcheck disable=SC2016 # It is mmdebstrap's shell that knows the folder.
  mmdebstrap --quiet --mode=root --variant=minbase --include="$PACKAGES" \
    --customize-hook='printf "LABEL=root / ext4 defaults 0 1\n" >"$1/etc/fstab"' \
    --customize-hook='printf "datasource_list: [ NoCloud, None ]\n" >"$1/etc/cloud/cloud.cfg.d/90_polyvirt.cfg"' \
    --customize-hook='chroot "$1" systemctl enable systemd-networkd qemu-guest-agent 2>/dev/null' \
    --customize-hook='rm -f "$1/etc/hostname"; : >"$1/etc/machine-id"' \
    "$SUITE" "$1" >&2
}

build() {
  local folder system
  folder=$CACHE/debian-guest-$(cat "$0" "$HERE/guest/disk.sh" | sha256sum | cut -c1-16)
  if [ ! -f "$folder/debian.qcow2" ]; then
    require
    mkdir -p "$CACHE"
    WORK=$(mktemp -d "$CACHE/.debian-guest.XXXXXX")
    trap 'rm -rf "$WORK"' EXIT
    system=$WORK/system
    mkdir -p "$WORK/out"
    say "installing $SUITE"
    install_debian "$system"
    make_boot "$WORK/boot.fat" "$BOOT_MIB" "$(echo "$system"/boot/vmlinuz-*)" "$(echo "$system"/boot/initrd.img-*)" \
      "root=LABEL=root console=tty0 console=ttyS0,115200 net.ifnames=0"
    rm -rf "${system:?}"/boot/* "${system:?}"/var/lib/apt/lists/*
    truncate -s "${SYSTEM_MIB}M" "$WORK/system.ext4"
    mkfs.ext4 -q -L root -d "$system" "$WORK/system.ext4"
    make_disk "$WORK/out/debian.qcow2" "$WORK/boot.fat" "$WORK/system.ext4"
    rm -rf "$folder"
    mv -T "$WORK/out" "$folder"
    say "built in $SECONDS s"
  fi
  echo "$folder/debian.qcow2"
}

# The documents that a provider would write for a VM called debian-check with one static card.
documents() {
  printf 'instance-id: %s\nlocal-hostname: "debian-check"\n' "$2" >"$1/meta-data"
  cat >"$1/user-data" <<'EOF'
#cloud-config
write_files:
- path: /root/proof
  content: written by cloud-init
runcmd:
- echo "PROOF hostname=$(hostname) address=$(ip -4 -o address show eth0 | awk '{ print $4 }') route=$(ip -4 route show default | awk '{ print $3 }') file=$(tr ' ' - </root/proof)" >/dev/ttyS0
- poweroff
EOF
  cat >"$1/network-config" <<EOF
version: 2
ethernets:
  "nic-lan":
    match:
      macaddress: "$MAC"
    addresses:
    - "$ADDRESS/24"
    routes:
    - to: "0.0.0.0/0"
      via: "10.0.2.2"
EOF
}

# boot IMAGE SEED-KIND: the guest powers itself off when it is done.
boot() {
  local seed=$WORK/seed.$2 devices
  case $2 in
    fat) devices=(-drive "if=virtio,format=raw,readonly=on,file=$seed") ;;
    iso) devices=(-device virtio-scsi-pci -drive "if=none,id=seed,media=cdrom,format=raw,readonly=on,file=$seed" -device "scsi-cd,drive=seed") ;;
  esac
  mkdir -p "$WORK/documents"
  documents "$WORK/documents" "check-$2"
  (cd "$HERE/.." && cargo run --quiet --locked --package polyvirt-disks --example seed -- "$WORK/documents" "$2" "$seed")
  qemu-img create -q -f qcow2 -b "$1" -F qcow2 "$WORK/disk.$2"
  say "booting with the seed as $2"
  timeout "$PATIENCE" qemu-system-x86_64 -machine q35 -accel tcg -m 1024 -smp 2 -nodefaults -display none -no-reboot \
    -drive "if=virtio,file=$WORK/disk.$2" "${devices[@]}" -netdev user,id=lan -device "virtio-net-pci,netdev=lan,mac=$MAC" \
    -serial "file:$WORK/serial.$2" || die "the guest did not end in $PATIENCE s: $(tail -n 5 "$WORK/serial.$2")"
}

check() {
  local image kind found expected="PROOF hostname=debian-check address=$ADDRESS/24 route=10.0.2.2 file=written-by-cloud-init"
  image=$(build)
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
  for kind in fat iso; do
    boot "$image" "$kind"
    found=$(tr -d '\r' <"$WORK/serial.$kind" | grep -a -m 1 -o 'PROOF .*' || true)
    [ "$found" = "$expected" ] || die "cloud-init made something else of the $kind seed: ${found:-nothing}"
    say "$kind: $found"
  done
}

case ${1:-} in
  build | check) "$1" ;;
  *) die "say build or check" ;;
esac
