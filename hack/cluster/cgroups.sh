#!/usr/bin/env bash
# The control group of the cluster, in the one hierarchy of version 2 or in each of version 1.
#
#   hack/cluster/cgroups.sh enter PID   makes it, and puts the process into it
#   hack/cluster/cgroups.sh cover       inside: hides all others from whoever is in this mount namespace
#   hack/cluster/cgroups.sh remove      removes it, with all that is in it
set -euo pipefail

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh

hierarchies() { awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/self/mounts; }

enter_group() {
  mkdir -p "$1/$CGROUP"
  # A group of processors without processors takes nobody in.
  if [ -e "$1/$CGROUP/cpuset.cpus" ] && [ -z "$(cat "$1/$CGROUP/cpuset.cpus")" ]; then
    cat "$1/cpuset.cpus" >"$1/$CGROUP/cpuset.cpus" 2>/dev/null || true
    cat "$1/cpuset.mems" >"$1/$CGROUP/cpuset.mems" 2>/dev/null || true
  fi
  echo "$2" >"$1/$CGROUP/cgroup.procs"
}

# Version 2 wants processes in the leaves only, and the groups of pods will be beside us.
cover_group() {
  mount --bind "$1/$CGROUP" "$1"
  [ -e "$1/cgroup.controllers" ] || return 0
  mkdir -p "$1/programs"
  echo "$PPID" >"$1/programs/cgroup.procs"
}

# A group goes when the last of its processes is gone, which may take a moment.
remove_group() {
  local try
  for try in $(seq 50); do
    [ -d "$1/$CGROUP" ] || return 0
    find "$1/$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
  done
  die "$1/$CGROUP cannot be removed after $try attempts"
}

for hierarchy in $(hierarchies); do
  case "${1:-}" in
    enter) enter_group "$hierarchy" "${2:?}" ;;
    cover) cover_group "$hierarchy" ;;
    remove) remove_group "$hierarchy" ;;
    *) die "usage: hack/cluster/cgroups.sh enter|cover|remove" ;;
  esac
done
