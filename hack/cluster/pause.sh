#!/usr/bin/env bash
# Makes the image that holds the namespaces of a pod: one static program that waits. No registry is asked.
#
#   hack/cluster/pause.sh FILE.tar
set -euo pipefail

# shellcheck source=hack/cluster/common.sh
. hack/cluster/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/root"
musl-gcc -static -Os -s -x c -o "$work/root/pause" - <<'C'
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop(int number) { _exit(0); }
static void reap(int number) { while (waitpid(-1, NULL, WNOHANG) > 0); }
int main(void) {
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
C
tar -C "$work/root" -cf "$work/layer.tar" pause
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/pause"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
  "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')" "$(sha256sum "$work/layer.tar" | cut -d' ' -f1)" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$PAUSE" >"$work/manifest.json"
tar -C "$work" -cf "$1" manifest.json config.json layer.tar
