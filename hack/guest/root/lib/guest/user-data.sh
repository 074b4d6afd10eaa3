# shellcheck shell=sh
# User data: a script (#!) is run; of #cloud-config these keys act: hostname, fqdn, write_files (path, content, encoding
# b64, permissions, append), runcmd (a text for the shell or a list of arguments). Any other key or kind of user data is
# named on the console and ignored. The YAML is read by yaml.awk, which says what it knows.
CONFIG=/run/seed/cloud-config.flat

run_user_data() {
  case $(head -n 1 "$1") in
    '#!'*) run_script "$1" ;;
    '#cloud-config'*) apply_cloud_config "$1" ;;
    *) say "user-data ignored: neither #! nor #cloud-config" ;;
  esac
}

# Without its interpreter a script is tried with the shell: most that ask for bash need no more.
run_script() {
  cp "$1" /run/user-data
  chmod 0700 /run/user-data
  interpreter=$(sed -n '1s/^#! *\([^ ]*\).*/\1/p' "$1")
  if [ -x "$interpreter" ]; then
    /run/user-data >/dev/console 2>&1
  else
    say "user-data: no $interpreter, running it with sh"
    sh /run/user-data >/dev/console 2>&1
  fi
  say "user-data done code=$?"
}

apply_cloud_config() {
  flat "$1" >"$CONFIG"
  keys_under "$CONFIG" '' | grep -Ev '^(hostname|fqdn|write_files|runcmd)$' |
    while read -r key; do say "cloud-config ignored $key"; done
  set_hostname
  for file in $(keys_under "$CONFIG" write_files); do write_file "write_files/$file"; done
  run_commands >/dev/console 2>&1
  say "user-data done code=$?"
}

set_hostname() {
  name=$(value_of "$CONFIG" hostname)
  fqdn=$(value_of "$CONFIG" fqdn)
  name=${name:-${fqdn%%.*}}
  [ -z "$name" ] || { hostname "$name" && say "hostname=$name"; }
}

# Line breaks inside a value travel as the character 1.
content_of() { value_of "$CONFIG" "$1" | tr -d '\n' | tr '\001' '\n'; }

decoded_content() {
  case $(value_of "$CONFIG" "$1/encoding") in
    b64 | base64) content_of "$1/content" | base64 -d ;;
    *) content_of "$1/content" ;;
  esac
}

write_file() {
  path=$(value_of "$CONFIG" "$1/path")
  [ -n "$path" ] || return
  mkdir -p "${path%/*}/"
  case $(value_of "$CONFIG" "$1/append") in
    true | yes) decoded_content "$1" >>"$path" ;;
    *) decoded_content "$1" >"$path" ;;
  esac
  permissions=$(value_of "$CONFIG" "$1/permissions")
  chmod "${permissions:-0644}" "$path"
  say "wrote $path"
}

# All commands run, as with cloud-init; the code is that of the last one that failed.
run_commands() {
  code=0
  for command in $(keys_under "$CONFIG" runcmd); do
    run_command "runcmd/$command" || code=$?
  done
  return "$code"
}

run_command() {
  if [ -z "$(keys_under "$CONFIG" "$1")" ]; then
    content_of "$1" | sh
    return
  fi
  set -- "$1" "$(keys_under "$CONFIG" "$1")"
  parent=$1 words=$2
  set --
  for word in $words; do set -- "$@" "$(content_of "$parent/$word")"; done
  "$@"
}
