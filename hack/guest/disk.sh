# shellcheck shell=bash
# How a guest's disk is put together, without root and without mounting anything. Needs $WORK, a folder for what comes
# between.

# make_boot FILE MIB KERNEL INITRD COMMAND-LINE: the FAT partition that both firmwares boot, by syslinux for BIOS and by
# systemd-boot for UEFI.
make_boot() {
  local image=$1 tree=$WORK/boot
  mkdir -p "$tree/EFI/BOOT" "$tree/loader/entries"
  cp "$3" "$tree/vmlinuz"
  cp "$4" "$tree/initrd"
  cp /usr/lib/systemd/boot/efi/systemd-bootx64.efi "$tree/EFI/BOOT/BOOTX64.EFI"
  printf 'DEFAULT guest\nPROMPT 0\nLABEL guest\nKERNEL /vmlinuz\nINITRD /initrd\nAPPEND %s\n' "$5" >"$tree/syslinux.cfg"
  printf 'default guest\ntimeout 0\n' >"$tree/loader/loader.conf"
  printf 'title guest\nlinux /vmlinuz\ninitrd /initrd\noptions %s\n' "$5" >"$tree/loader/entries/guest.conf"
  truncate -s "$2M" "$image"
  mkfs.vfat --invariant -n BOOT "$image" >/dev/null
  mcopy -s -i "$image" "$tree"/* ::
  syslinux --install "$image"
}

# make_disk TARGET BOOT SYSTEM: a compressed qcow2 with an MBR. Partition 1 is BOOT, also the EFI system partition;
# partition 2 is SYSTEM. Both have whole MiB.
make_disk() {
  local disk=$WORK/disk.raw boot system
  boot=$(($(stat -c %s "$2") >> 20)) system=$(($(stat -c %s "$3") >> 20))
  truncate -s "$((1 + boot + system + 1))M" "$disk"
  printf 'label: dos\nstart=1MiB,size=%dMiB,type=ef,bootable\nstart=%dMiB,size=%dMiB,type=83\n' \
    "$boot" "$((1 + boot))" "$system" | sfdisk -q "$disk"
  dd if=/usr/lib/syslinux/mbr/mbr.bin of="$disk" bs=440 count=1 conv=notrunc status=none
  dd if="$2" of="$disk" bs=1M seek=1 conv=notrunc,sparse status=none
  dd if="$3" of="$disk" bs=1M seek="$((1 + boot))" conv=notrunc,sparse status=none
  qemu-img convert -f raw -O qcow2 -c "$disk" "$1"
}
