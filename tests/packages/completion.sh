#!/bin/bash
# Bash completion against --help: every command and every option of every command is offered, and
# values and files where they belong.
# Usage: tests/packages/completion.sh RUBATO   Exit code 77: bash-completion is missing
set -u
framework=/usr/share/bash-completion/bash_completion
[ -r "$framework" ] || { echo "skipped: bash-completion is not installed"; exit 77; }
rubato=$(realpath "$1")
source "$framework"
source "$(dirname "$0")/../../deploy/completion/rubato"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
touch edge.toml notes.txt model.safetensors
failed=0

# expect WORDS... -- OFFERED...: the last of WORDS is under the cursor.
expect() {
  COMP_WORDS=("$rubato")
  while [ "$1" != -- ]; do COMP_WORDS+=("$1"); shift; done
  shift
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMP_LINE="${COMP_WORDS[*]}"
  COMP_POINT=${#COMP_LINE}
  COMP_TYPE=9
  COMPREPLY=()
  _rubato "$rubato" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  local offered wanted
  offered=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
  wanted=$(printf '%s\n' "$@" | sort)
  if [ "$offered" != "$wanted" ]; then
    printf 'rubato %s offers:\n%s\nnot:\n%s\n' "${COMP_WORDS[*]:1}" "$offered" "$wanted"
    failed=1
  fi
}

# Each command with its commands and options, read in another way than the completion does.
check_command() {
  local help commands command options
  help=$("$rubato" "$@" --help)
  commands=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<<"$help")
  options=$(sed -n '/^Options:/,/^$/p' <<<"$help" | grep -oE '^  (-h,)?--[a-z-]+' | grep -oE -- '--.*')
  expect "$@" - -- $options
  [ -z "$commands" ] || expect "$@" "" -- $commands
  for command in $commands; do
    checked=$((checked + 1))
    check_command "$@" "$command"
  done
}
checked=0
check_command
[ "$checked" -ge 12 ] || { echo "only $checked commands"; failed=1; }
expect "sched" -- scheduler
expect compare --se -- --seeds
expect compare ed -- edge.toml
expect compare "" -- edge.toml
expect compare edge.toml --out no -- notes.txt
expect compare edge.toml --sync local -- local-sgd
expect compare edge.toml --sync bsp,ad -- bsp,adacomm bsp,adsp
expect compare edge.toml --seeds "" -- ""
expect data --task reg -- regression
expect evaluate "" -- model.safetensors
expect evaluate model.safetensors --device c -- cpu cuda
exit $failed
