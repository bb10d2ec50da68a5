#!/bin/bash
# Health of a container of the image. A scheduler or server greets on the port where it listens. A
# worker is connected to its scheduler. Any other command has to run, no more.
set -u
sick() { echo "$*"; exit 1; }

arguments=()
for process in /proc/[0-9]*; do
  mapfile -d '' -t arguments 2>/dev/null <"$process/cmdline" || continue
  [[ ${arguments[0]-} =~ (^|/)rubato$ ]] && break
  arguments=()
done
[[ ${#arguments[@]} -gt 0 ]] || sick "no rubato runs here"

# value OPTION: of the command line; empty where it has none.
value() {
  local i
  for ((i = 1; i + 1 < ${#arguments[@]}; i++)); do
    [[ ${arguments[i]} == "$1" ]] && echo "${arguments[i + 1]}" && return
  done
}

role=${arguments[1]-}
case $role in
  scheduler | server)
    endpoint=$(value --bind)
    [[ -n $endpoint || $role == server ]] || endpoint=tcp://127.0.0.1:5700
    port=${endpoint##*:}
    host=${endpoint#tcp://}
    host=${host%:*}
    [[ $host == 0.0.0.0 || $host == "*" ]] && host=127.0.0.1
    [[ $port =~ ^[0-9]+$ ]] || exit 0  # any free port
    exec 3<>"/dev/tcp/$host/$port" || sick "the $role does not listen on $host:$port"
    # ZeroMQ's greeting begins with 0xFF.
    LC_ALL=C IFS= read -r -d '' -n 1 -t 3 -u 3 byte
    [[ $byte == $'\xff' ]] || sick "the $role does not answer on $host:$port"
    ;;
  worker)
    endpoint=$(value --scheduler)
    port=$(printf %04X "${endpoint##*:}")
    while read -r _ _ remote state _; do
      [[ ${remote##*:} == "$port" && $state == 01 ]] && exit 0
    done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
    sick "the worker has no connection to $endpoint"
    ;;
esac
