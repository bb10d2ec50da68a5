#!/bin/sh
# librubato.so exports the functions of rubato.h and nothing else, each under a version. It needs no
# library that computes or reads data.
# Usage: tests/abi/library.sh LIBRUBATO RUBATO_H
set -eu
fail() { printf 'library: %s\n' "$*" >&2; exit 1; }
library=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sort > "$scratch/exported"
nm -D --defined-only "$library" | awk '$2 != "T" && $2 != "A"' > "$scratch/others"
[ ! -s "$scratch/others" ] || fail "it exports more than functions: $(head -n 3 "$scratch/others")"
sed 's:/\*.*\*/::' "$2" | grep -oE '\brubato_[a-z_]+\(' | tr -d '(' | sort -u |
  sed 's/$/@@RUBATO_0/' > "$scratch/declared"
grep -qx 'rubato_open@@RUBATO_0' "$scratch/declared" || fail "rubato.h declares no rubato_open"
# The head of rubato.h names functions that it declares below.
diff "$scratch/declared" "$scratch/exported" >&2 || fail "rubato.h (<) and the library (>) differ"
count=$(wc -l < "$scratch/exported")
[ "$count" -le 20 ] || fail "it exports $count functions; 20 are enough"
readelf -d "$library" | grep -q 'SONAME.*\[librubato\.so\.0\]' || fail "its name is not librubato.so.0"
for each in dnnl openblas blas gomp onnx protobuf png jpeg heif webp zip python; do
  ! ldd "$library" | grep "lib$each" >&2 || fail "lib$each is needed"
done
