#!/usr/bin/env bash
# Installs what real virtual machines need on this machine: QEMU, libvirt, the UEFI firmware, and the tools that hack/guest.sh
# builds the test guest with. Installs only what is missing, and says what. Safe to run again: then it only looks.
#
#   hack/packages.sh [package...]     with names only these Debian packages, for other scripts
#
# It is the one script that needs root, itself or by sudo, and only if something is missing.
set -euo pipefail

# The oldest QEMU that the tests are expected to pass with. Newer than Debian 12 has, so there it comes from backports.
OLDEST_QEMU=8.2
# Older ones cannot go back to every kind of snapshot. Debian 12 itself has 9.0.
OLDEST_LIBVIRT=10.10
VM_USER=polyvirt-qemu
BACKPORTS=/etc/apt/sources.list.d/polyvirt-backports.sources
QEMU_PACKAGES=(qemu-system-x86 qemu-utils)
# The daemon with the drivers that the tests need, and virsh beside it. Nothing is started: tests run daemons of their own.
LIBVIRT_PACKAGES=(libvirt-daemon libvirt-clients libvirt-daemon-driver-qemu libvirt-daemon-driver-storage libvirt-daemon-driver-storage-logical libvirt-daemon-driver-network)
# What those need of the same version, which apt would not look for in backports by itself.
LIBVIRT_PARTS=(libvirt-daemon-common libvirt-daemon-log libvirt-common libvirt0)
OTHER_PACKAGES=(ovmf swtpm swtpm-tools dnsmasq-base openvswitch-switch openssh-server libsasl2-modules sasl2-bin cpio dosfstools e2fsprogs fdisk iproute2 kmod mtools syslinux syslinux-common systemd-boot-efi util-linux zstd)
PROGRAMS=(qemu-system-x86_64 qemu-img cpio ip mkfs.vfat mkfs.ext4 sfdisk depmod mcopy syslinux flock zstd libvirtd virsh swtpm dnsmasq ovs-vswitchd sshd saslpasswd2)

# What lies in sbin is not in the PATH of a Debian user.
export PATH=$PATH:/usr/sbin:/sbin

say() { printf 'packages: %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null; }
is_root() { [ "$(id -u)" = 0 ]; }
as_root() {
  if is_root; then "$@"; else sudo "$@"; fi
}
# Asks for a password if there is somebody to ask.
can_become_root() { is_root || { has sudo && sudo --validate; }; }

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# missing_of PACKAGE...
missing_of() {
  local name
  for name in "$@"; do
    is_installed "$name" || echo "$name"
  done
}

missing_packages() { missing_of "${QEMU_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}" "${OTHER_PACKAGES[@]}"; }

missing_programs() {
  local name
  for name in "${PROGRAMS[@]}"; do
    has "$name" || echo "$name"
  done
}

# at_least OLDEST VERSION
at_least() { printf '%s\n%s\n' "$1" "$2" | sort --version-sort --check=quiet; }

qemu_version() { qemu-system-x86_64 --version | sed -n '1s/.*version \([0-9.]*[0-9]\).*/\1/p'; }

qemu_is_too_old() { has qemu-system-x86_64 && ! at_least "$OLDEST_QEMU" "$(qemu_version)"; }

libvirt_version() { libvirtd --version | sed -n '1s/.* \([0-9.]*[0-9]\).*/\1/p'; }

libvirt_is_too_old() { has libvirtd && ! at_least "$OLDEST_LIBVIRT" "$(libvirt_version)"; }

is_debian_12() { grep -qx 'VERSION_CODENAME=bookworm' /etc/os-release && grep -qx 'ID=debian' /etc/os-release; }

# The value of FIELD in the paragraph of debian.sources that names the suite bookworm.
debian_source() {
  local file=/etc/apt/sources.list.d/debian.sources
  [ -r "$file" ] || return 0
  awk -v RS= -v field="$1" '/\nSuites:[^\n]* ?bookworm( |\n)/ {
    count = split($0, line, "\n")
    for (i = 1; i <= count; i++) if (sub("^" field ": *", "", line[i])) { print line[i]; exit }
  }' "$file"
}

# The mirror in a sources.list of the old form.
old_source() {
  [ -r /etc/apt/sources.list ] || return 0
  awk '$1 == "deb" && $3 == "bookworm" { print $2; exit }' /etc/apt/sources.list
}

backports_source() {
  local uris signed_by
  uris=$(debian_source URIs)
  uris=${uris:-$(old_source)}
  signed_by=$(debian_source Signed-By)
  cat <<EOF
# Added by hack/packages.sh of Polyvirt: Debian 12 itself has QEMU 7.2.
Types: deb
URIs: ${uris:-http://deb.debian.org/debian}
Suites: bookworm-backports
Components: main
Signed-By: ${signed_by:-/usr/share/keyrings/debian-archive-keyring.gpg}
EOF
}

has_backports() { grep -rqs '^[^#]*bookworm-backports' /etc/apt/sources.list /etc/apt/sources.list.d --include='*.list' --include='*.sources'; }

add_backports() {
  has_backports && return
  say "adding bookworm-backports as $BACKPORTS"
  backports_source | as_root tee "$BACKPORTS" >/dev/null
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null
}

announce() {
  can_become_root || die "missing packages: $*. Only root can install them, and sudo is not there or refuses. As root, run: $0"
  say "installing $*"
}

update_lists() { as_root apt-get update -qq -o DPkg::Lock::Timeout=300 || say "the lists could not be updated; trying with the old ones"; }

# Only these, from the suite that the system has.
install_named() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  [ "${#missing[@]}" -gt 0 ] || return 0
  announce "${missing[@]}"
  update_lists
  apt_install "${missing[@]}" || die "could not be installed: ${missing[*]}"
}

install_packages() {
  local command="apt-get install $*"
  announce "$@"
  if is_debian_12; then add_backports; fi
  update_lists
  if is_debian_12; then
    # One transaction for QEMU alone: all its packages must come from the same suite.
    apt_install -t bookworm-backports "${QEMU_PACKAGES[@]}" || die "QEMU could not be installed from bookworm-backports"
    # Package by package: with -t apt would take systemd from there too.
    local libvirt=("${LIBVIRT_PACKAGES[@]}" "${LIBVIRT_PARTS[@]}")
    apt_install "${libvirt[@]/%//bookworm-backports}" || die "libvirt could not be installed from bookworm-backports"
  fi
  apt_install "$@" || die "could not be installed: $command"
}

# Where there is no apt the programs themselves are asked for.
without_apt() {
  local missing
  missing=$(missing_programs | xargs)
  [ -z "$missing" ] || die "missing programs: $missing. This is no Debian: install them by hand"
}

packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  if [ "${#missing[@]}" -eq 0 ] && is_debian_12 && qemu_is_too_old; then missing=("${QEMU_PACKAGES[@]}"); fi
  if [ "${#missing[@]}" -eq 0 ] && is_debian_12 && libvirt_is_too_old; then missing=("${LIBVIRT_PACKAGES[@]}"); fi
  [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
}

check_qemu() {
  has qemu-system-x86_64 || die "no qemu-system-x86_64 after the installation"
  if qemu_is_too_old; then
    say "QEMU $(qemu_version) is too old: $OLDEST_QEMU or later is needed, and this system offers none. Some tests will fail"
  fi
}

check_libvirt() {
  has libvirtd || die "no libvirtd after the installation"
  if libvirt_is_too_old; then
    say "libvirt $(libvirt_version) is too old: $OLDEST_LIBVIRT or later is needed, and this system offers none. Some tests will fail"
  fi
}

# A provider that runs as root gives this user to its VMs, so that a guest that breaks out of QEMU owns nothing.
vm_user() {
  if ! is_root || getent passwd "$VM_USER" >/dev/null; then return; fi
  say "adding the system user $VM_USER"
  useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$VM_USER"
}

if [ $# -gt 0 ]; then
  # Where there is no apt, whoever needs the programs says which are missing.
  if has dpkg-query && has apt-get; then install_named "$@"; fi
  exit 0
fi
if has dpkg-query && has apt-get; then packages; else without_apt; fi
check_qemu
check_libvirt
vm_user
say "QEMU $(qemu_version), libvirt $(libvirt_version): ok"
