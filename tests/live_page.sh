#!/bin/bash
# Looks at the live page of a run in headless Chromium: it shows the members, and grows by itself.
# Usage: tests/live_page.sh [RUBATO]      RUBATO: default build/dev/cli/rubato
# Exit code: 0 it does; 1 it does not; 77 a program is missing.
set -euo pipefail
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE  # they pin kernels
root=$(cd "$(dirname "$0")/.." && pwd)
rubato=$(realpath "${1:-$root/build/dev/cli/rubato}")
for program in chromium curl; do
  command -v "$program" >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
place=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$place"
}
trap finish EXIT
fail() { echo "$*" >&2; exit 1; }

# The page as it is SECONDS after it was loaded.
page_of() {  # URL SECONDS
  timeout 90 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$place/chromium" \
    --timeout="$(($2 * 1000))" --dump-dom "$1" 2>"$place/chromium.log"
}
url_in() {  # FILE
  for _ in $(seq 600); do
    local url
    url=$(sed -n 's/.*live page: //p' "$1")
    [ -z "$url" ] || { echo "$url"; return; }
    sleep 0.1
  done
  fail "no live page: $(cat "$1")"
}

cat >"$place/cluster.toml" <<'TOML'
name = "watched"
[[workers]]
name = "box"
count = 2
step_seconds = 0.05
[[workers]]
name = "slow"
step_seconds = 0.15
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 600
TOML
(cd "$place" && exec "$rubato" up cluster.toml --sync adsp --out out --http 0) 2>"$place/up.log" >/dev/null &
pids+=($!)
url=$(url_in "$place/up.log")
for _ in $(seq 300); do
  figures=$(curl -s "${url}metrics")
  ! grep -q '^rubato_worker_steps_total{worker="slow".* [1-9]' <<<"$figures" || break
  sleep 0.2
done

# What the browser shows after some seconds is more than what it has loaded: news came by events.
page_of "$url" 8 >"$place/page.html"
loaded=$(grep -o '"steps":[0-9]*,"commits"' "$place/page.html" | head -1 | tr -dc 0-9)
line=$(grep -o 'id="live-line"[^>]*>[^<]*' "$place/page.html")
shown=$(sed -n 's/.*, \([0-9,]*\) steps.*/\1/p' <<<"$line" | tr -d ,)
echo "loaded with $loaded steps; shows: ${line#*>}"
[ "$shown" -gt "$loaded" ] || fail "the page did not grow"
members=$(tr '\n' ' ' <"$place/page.html" | grep -o '<table id="members">.*</table>' | sed 's/<\/table>.*//')
for worker in box-0 box-1 slow; do
  grep -q ">$worker<" <<<"$members" || fail "$worker is not among the members"
done
if grep -i "uncaught\|violates" "$place/chromium.log"; then fail "the page has errors"; fi
echo "the live page grows by itself, and shows all members"
