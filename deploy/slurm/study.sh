#!/bin/bash
# One task of a Slurm job array runs one share of a study; the last job merges the shares.
# Usage: deploy/slurm/study.sh STUDY.toml PARTS [sbatch options...]
#   RUBATO=/path/to/rubato   default: rubato. All nodes see it, the study and OUT by the same path.
#   OUT=out/NAME             default: out/<name of the study file>
#   CORES=2                  cores of a task
# Example: deploy/slurm/study.sh deploy/studies/heterogeneity.toml 16 --time=01:00:00
# A task that was lost runs again with the same command: finished runs are kept.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# //p' "$0" >&2
  exit 2
fi
study=$1 parts=$2
shift 2
rubato=${RUBATO:-rubato} cores=${CORES:-2}
name=$(basename "$study" .toml)
out=${OUT:-out/$name}
mkdir -p "$out"
[[ $parts =~ ^[1-9][0-9]*$ ]] || { echo "PARTS is a whole number from 1, not $parts" >&2; exit 2; }
# Words of a POSIX shell: that is what runs the text of --wrap. (%q of printf writes words of bash.)
quoted() {
  local word apostrophe="'\\''"
  for word in "$@"; do printf "'%s' " "${word//\'/"$apostrophe"}"; done
}

# %A and %a are the numbers of the job and the task.
array=$(sbatch --parsable --job-name="rubato-$name" --array="1-$parts" --cpus-per-task="$cores" \
  --output="$out/slurm-%A-%a.log" "$@" \
  --wrap "$(quoted "$rubato" study "$study" --out "$out" --threads "$cores" --quiet) --part \$SLURM_ARRAY_TASK_ID/$parts")
directories=()
for part in $(seq "$parts"); do directories+=("$out/part-$part-of-$parts"); done
merge=$(sbatch --parsable --job-name="rubato-$name-merge" --dependency="afterok:$array" \
  --kill-on-invalid-dep=yes --output="$out/slurm-%j-merge.log" "$@" \
  --wrap "$(quoted "$rubato" study --merge "${directories[@]}" --out "$out")")
echo "shares: job $array, 1 to $parts; merge: job $merge; results: $out/report.html"
