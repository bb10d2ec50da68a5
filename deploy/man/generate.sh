#!/bin/sh
# Man pages of rubato and of each of its commands. The text is that of --help; rubato.h2m and
# command.h2m add what --help has no room for. Needs help2man.
# Usage: deploy/man/generate.sh DIRECTORY SHARE COMMAND...
#   SHARE: where the example files will be installed
#   COMMAND: an absolute path to rubato; an emulator may precede it
set -eu
parts=$(cd "$(dirname "$0")" && pwd)
directory=$1 share=$2
shift 2
rm -rf "$directory"
mkdir -p "$directory"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"  # so that --help names the examples by their whole path

# help_of [COMMAND]: what --help says, up to the examples, in the form that help2man reads.
version=$("$@" --version)
help_of() {
  "$@" --help | sed -e '/^Examples:/,$d' -e 's/^Positionals:/Arguments:/' \
    -e 's/^Subcommands:/Commands:/' -e 's/-h,--help/-h, --help/'
}

# examples_of [COMMAND]: the section of its examples; empty if it shows none. The files of the example
# are where they will be installed.
examples_of() {
  text=$("$@" --help | sed -e '1,/^Examples:/d' -e '/^Exit codes:/,$d' -e "s,$(dirname "$parts"),$share," \
    -e 's/\\/\\e/g' -e 's/-/\\-/g')
  [ -z "$text" ] || printf '\n[EXAMPLES]\n.nf\n%s\n.fi\n' "$text"
}

# make NAME TITLE PARTS: the page NAME.1 of the text in $place/NAME.text, whose first line is a title.
# help2man asks a program for --help and --version, so each page has one that answers.
make() {
  printf '#!/bin/sh\nif [ "$1" = --version ]; then echo "%s %s"; else sed 1d "%s"; fi\n' \
    "$1" "${version#* }" "$place/$1.text" >"$place/$1"
  chmod +x "$place/$1"
  help2man --no-info --section=1 --manual=Rubato --source="$version" --name="$2" --include="$3" \
    --output="$directory/$1.1" "$place/$1"
  gzip -9n "$directory/$1.1"
}

# pages NAME COMMAND...: the pages of the commands that the help of COMMAND lists, and of theirs.
pages() {
  name=$1
  shift
  "$@" --help | awk '/^Subcommands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' |
    while read -r command; do
      help_of "$@" "$command" >"$place/$name-$command.text"
      { cat "$parts/command.h2m"; examples_of "$@" "$command"; } >"$place/$name-$command.h2m"
      make "$name-$command" "$(sed -n 1p "$place/$name-$command.text")" "$place/$name-$command.h2m"
      (pages "$name-$command" "$@" "$command")
    done
}
pages rubato "$@"

help_of "$@" >"$place/rubato.text"
{ cat "$parts/rubato.h2m"; examples_of "$@"; } >"$place/rubato.h2m"
make rubato "parameter server for unequal machines" "$place/rubato.h2m"
