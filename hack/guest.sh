#!/usr/bin/env bash
# Builds the test guest, a small Linux that boots by BIOS and UEFI from one disk image, and prints the path of the image.
# hack/guest/README.md says what the guest does. The image is made once and kept in the cache; the path is the only line on
# stdout, progress goes to stderr. Safe to run again and from several processes. Needs no root, only what
# hack/packages.sh installs; kernel, busybox and agent are taken out of Debian packages that are downloaded, not installed.
#
#   POLYVIRT_CACHE           other cache than ~/.cache/polyvirt
#   POLYVIRT_GUEST_IMAGE     an image made elsewhere: nothing is built, its path is printed
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
SOURCE=$HERE/guest
CACHE=${POLYVIRT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polyvirt}
KERNEL_META=linux-image-cloud-amd64
# The agent, and what a guest's partitions and file systems are grown with.
PACKAGES=(qemu-guest-agent e2fsprogs fdisk util-linux)
PROGRAMS=(sbin/qemu-ga sbin/resize2fs sbin/mke2fs sbin/sfdisk bin/partx bin/flock)
# What grows other file systems than the guest's own comes on a disk beside it, file-systems.qcow2: every guest would boot slower with it.
MORE_PACKAGES=(xfsprogs btrfs-progs)
MORE_PROGRAMS=(sbin/mkfs.xfs sbin/xfs_growfs sbin/mkfs.btrfs bin/btrfs)
MORE_MODULES=(xfs btrfs)
BOOT_MIB=32
DATA_MIB=16
# Under emulation the checks of clocks and the defences against the guest's own users only cost time.
COMMAND_LINE="console=tty0 console=ttyS0,115200 quiet panic=5 net.ifnames=0 mitigations=off tsc=reliable"
APT=(-o "APT::Sandbox::User=$(id -un)")

export PATH=$PATH:/usr/sbin:/sbin SOURCE_DATE_EPOCH=0
# shellcheck source-path=SCRIPTDIR source=guest/disk.sh
. "$HERE/guest/disk.sh"

say() { printf '%s guest: %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

require_tools() {
  local name
  [ "$(uname -m)" = x86_64 ] || die "the test guest is built on x86_64 only; set POLYVIRT_GUEST_IMAGE to an image made there"
  for name in apt-get apt-cache dpkg-deb qemu-img cpio mkfs.vfat mkfs.ext4 sfdisk depmod mcopy syslinux flock zstd; do
    command -v "$name" >/dev/null || die "no $name. Run hack/packages.sh on a Debian, or set POLYVIRT_GUEST_IMAGE to an image made elsewhere"
  done
}

# The first real package that a package depends on.
first_dependency() { apt-cache "${APT[@]}" depends "$1" 2>/dev/null | sed -n 's/^  Depends: \([a-z].*\)/\1/p' | head -n 1; }

# The libraries of our programs, whatever this release calls them. What else they depend on serves their set-up on a whole Debian.
libraries() {
  apt-cache "${APT[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    "${PACKAGES[@]}" "${MORE_PACKAGES[@]}" 2>/dev/null | grep -E '^(lib[a-z0-9.+-]*|zlib1g)$' | grep -v -E 'perl|python|icu'
}

# name=version of each package that goes into the guest.
ingredients() {
  local kernel
  kernel=$(first_dependency "$KERNEL_META")
  [ -n "$kernel" ] || return 1
  { echo "$kernel" busybox-static cloud-guest-utils "${PACKAGES[@]}" "${MORE_PACKAGES[@]}" && libraries; } | xargs apt-cache "${APT[@]}" show --no-all-versions 2>/dev/null |
    awk '/^Package: / { name = $2 } /^Version: / { print name "=" $2 }' | sort -u
}

# The same, remembered until the package lists or our own change: apt needs seconds for it.
known_ingredients() {
  local memory
  memory=$CACHE/.guest-ingredients-$({ echo "${PACKAGES[@]}" "${MORE_PACKAGES[@]}" && find /var/lib/apt/lists -maxdepth 1 -printf '%f %s %t\n' | sort; } | sha256sum | cut -c1-16)
  if [ ! -s "$memory" ]; then
    rm -f "$CACHE"/.guest-ingredients-*
    ingredients >"$memory.$$" || { rm -f "$memory.$$" && return 1; }
    mv "$memory.$$" "$memory"
  fi
  cat "$memory"
}

# Lists of our own, which need no root: for machines whose lists are absent, or so old that their packages are gone.
own_lists() {
  local folder=$CACHE/apt
  say "reading the package lists anew"
  mkdir -p "$folder"/{lists,archives}/partial
  APT+=(-o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder" -o "Dir::Cache::archives=$folder/archives")
  apt-get "${APT[@]}" update -qq >&2 || die "the package lists cannot be read: is there a way to the Debian mirror?"
}

# The scripts, the packages and the tools that leave their mark in the image.
hash_of_inputs() {
  (
    cd "$HERE"
    find guest.sh guest -type f ! -name README.md -print0 | sort -z | xargs -0 sha256sum
    printf '%s\n' "$1"
    dpkg-query -W -f '${Package}=${Version}\n' syslinux-common systemd-boot-efi 2>/dev/null
  ) | sha256sum | cut -c1-16
}

download() { (cd "$WORK/packages" && xargs apt-get "${APT[@]}" download -qq >&2 <<<"$1"); }

unpack() {
  local file
  for file in "$WORK"/packages/*.deb; do
    case ${file##*/} in
      linux-image-*) dpkg-deb -x "$file" "$WORK/kernel" ;;
      *) dpkg-deb -x "$file" "$WORK/system" ;;
    esac
  done
}

# find_one FOLDER NAME: the file of that name, in a tree where /usr may or may not be merged.
find_one() {
  local found
  found=$(find "$1" -path "*/$2" ! -type d -print -quit)
  [ -n "$found" ] || die "no $2 in the packages"
  echo "$found"
}

add_busybox() {
  local name
  install -m 0755 "$(find_one "$WORK/system" bin/busybox)" "$ROOT/bin/busybox"
  for name in $("$ROOT/bin/busybox" --list); do
    [ "$name" = busybox ] || ln -s /bin/busybox "$ROOT/bin/$name"
  done
}

# add_programs NAME...: with the libraries that their own loader asks for, all from the packages, none from this machine.
add_programs() {
  local loader program name libraries=$WORK/system/lib/x86_64-linux-gnu:$WORK/system/usr/lib/x86_64-linux-gnu
  loader=$(find_one "$WORK/system" ld-linux-x86-64.so.2)
  install -m 0755 "$(readlink -f "$loader")" "$ROOT/lib64/ld-linux-x86-64.so.2"
  for name in "$@"; do
    program=$(find_one "$WORK/system" "$name")
    install -m 0755 "$program" "$ROOT/usr/sbin/"
    "$loader" --inhibit-cache --library-path "$libraries" --list "$program" | add_libraries "$name"
  done
}

add_names() {
  ln -s mke2fs "$ROOT/usr/sbin/mkfs.ext4"
  # A script, which has its own ideas of tools: all others are busybox'.
  install -m 0755 "$(find_one "$WORK/system" bin/growpart)" "$ROOT/usr/sbin/growpart"
}

# add_libraries PROGRAM: those that a loader lists.
add_libraries() {
  local file
  sed -n 's/.* => \([^ ]*\) .*/\1/p' | while read -r file; do
    case $file in "$WORK"/*) ;; *) die "$1 would take $file of this machine" ;; esac
    [[ $file == *ld-linux* ]] || install -m 0644 "$file" "$ROOT/lib/x86_64-linux-gnu/"
  done
}

# modules_in_order FOLDER <NAMES: those drivers, each after those that it needs.
modules_in_order() {
  awk 'NR == FNR {
      file = $1; sub(":$", "", file)
      name = file; sub(".*/", "", name); sub("\\.ko.*", "", name); gsub("-", "_", name)
      file_of[name] = file; needs[name] = ""
      for (i = NF; i > 1; i--) needs[name] = needs[name] " " $i
      next
    }
    /^[a-z]/ {
      gsub("-", "_")
      count = split(needs[$1] " " file_of[$1], wanted, " ")
      for (i = 1; i <= count; i++) if (!(wanted[i] in done)) { done[wanted[i]] = 1; print wanted[i] }
    }' "$1/modules.dep" -
}

# add_modules <NAMES
add_modules() {
  local version folder file target
  version=$(basename "$(find_one "$WORK/kernel" 'boot/vmlinuz-*')")
  version=${version#vmlinuz-}
  folder=$(dirname "$(find_one "$WORK/kernel" modules.order)")
  depmod -b "${folder%/lib/modules/*}" "$version"
  modules_in_order "$folder" | while read -r file; do
    target=$(basename "${file%.xz}")
    echo "$target" >>"$ROOT/etc/modules.order"
    case $file in
      *.xz) xz -dc "$folder/$file" >"$ROOT/lib/modules/$target" ;;
      *) install -m 0644 "$folder/$file" "$ROOT/lib/modules/$target" ;;
    esac
  done
}

make_initrd() {
  mkdir -p "$ROOT"/{bin,sbin,dev,proc,sys,run,tmp,etc,data,mnt,root,lib64,usr/sbin,var/log,lib/modules,lib/x86_64-linux-gnu}
  ln -s /run "$ROOT/var/run"
  cp -r "$SOURCE/root/." "$ROOT/"
  add_busybox
  add_programs "${PROGRAMS[@]}"
  add_names
  add_modules <"$SOURCE/modules"
  (cd "$ROOT" && find . -print0 | sort -z | cpio --quiet -o -0 -H newc -R 0:0 --reproducible) | zstd -q -19 -o "$WORK/initrd"
}

# make_more TARGET: a disk with the further programs and drivers, in the places where a guest that copies it to its root has them.
make_more() {
  local ROOT=$WORK/more
  mkdir -p "$ROOT"/{etc,lib64,usr/sbin,lib/modules,lib/x86_64-linux-gnu}
  add_programs "${MORE_PROGRAMS[@]}"
  printf '%s\n' "${MORE_MODULES[@]}" | add_modules
  truncate -s 64M "$WORK/more.ext4"
  mkfs.ext4 -q -m 0 -d "$ROOT" "$WORK/more.ext4"
  qemu-img convert -f raw -O qcow2 -c "$WORK/more.ext4" "$1"
}

make_data() {
  truncate -s "${DATA_MIB}M" "$WORK/data.ext4"
  mkfs.ext4 -q -L data -m 0 "$WORK/data.ext4"
}

build() {
  local packages=$1
  mkdir -p "$WORK"/{packages,kernel,system,root,out}
  say "downloading packages: ${packages//$'\n'/ }"
  if ! download "$packages"; then
    own_lists
    packages=$(ingredients) || die "no $KERNEL_META in the package lists"
    download "$packages" || die "the packages cannot be downloaded"
  fi
  unpack
  make_initrd
  make_boot "$WORK/boot.fat" "$BOOT_MIB" "$(find_one "$WORK/kernel" 'boot/vmlinuz-*')" "$WORK/initrd" "$COMMAND_LINE"
  make_data
  make_more "$WORK/out/file-systems.qcow2"
  make_disk "$WORK/out/guest.qcow2" "$WORK/boot.fat" "$WORK/data.ext4"
}

main() {
  local packages folder
  if [ -n "${POLYVIRT_GUEST_IMAGE:-}" ]; then
    [ -f "$POLYVIRT_GUEST_IMAGE" ] || die "POLYVIRT_GUEST_IMAGE names no file"
    echo "$POLYVIRT_GUEST_IMAGE" && return
  fi
  require_tools
  mkdir -p "$CACHE"
  packages=$(known_ingredients) || { own_lists && packages=$(ingredients); } || die "no $KERNEL_META in the package lists: is this a Debian?"
  folder=$CACHE/guest-$(hash_of_inputs "$packages")
  if [ ! -f "$folder/guest.qcow2" ]; then
    exec 9>"$CACHE/.guest.lock"
    flock 9
  fi
  # Again, for another run may have built it while this one waited.
  if [ ! -f "$folder/guest.qcow2" ]; then
    # With the lock held, any work folder here is left over from a run that was killed.
    rm -rf "$CACHE"/.guest.??????
    WORK=$(mktemp -d "$CACHE/.guest.XXXXXX")
    ROOT=$WORK/root
    trap 'rm -rf "$WORK"' EXIT
    build "$packages"
    mv -T "$WORK/out" "$folder"
    say "built in $SECONDS s"
  fi
  # The name that does not change with the inputs: where the tests look.
  [ "$(readlink "$CACHE/guest" || true)" = "${folder##*/}" ] || ln -sfn "${folder##*/}" "$CACHE/guest"
  echo "$folder/guest.qcow2"
}

main
