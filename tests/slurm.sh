#!/bin/bash
# Runs deploy/slurm/study.sh on a Slurm of one node, and compares with a run without Slurm.
# Usage, as root: tests/slurm.sh [RUBATO]      RUBATO: default build/dev/cli/rubato
# Needs slurm-wlm and munge. It starts munged, slurmctld and slurmd with files of their own, on ports
# 16817 and 16818, and ends them. Exit code: 0 equal; 1 not; 77 a program is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
rubato=$(realpath "${1:-$root/build/dev/cli/rubato}")
for program in munged mungekey slurmctld slurmd sbatch; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
PATH=$PATH:/usr/sbin
place=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$place"
}
trap finish EXIT
chmod 755 "$place"

# munge: who a message is from.
mkdir -m 755 "$place/munge"
mungekey --create --keyfile="$place/munge/key"
munged --foreground --force --key-file="$place/munge/key" --socket="$place/munge/socket" \
  --log-file="$place/munge/log" --pid-file="$place/munge/pid" --seed-file="$place/munge/seed" &
pids+=($!)

host=$(hostname -s)
cat >"$place/slurm.conf" <<CONF
ClusterName=rubato
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
mkdir "$place/state" "$place/spool"
export SLURM_CONF=$place/slurm.conf
slurmctld -D -f "$SLURM_CONF" >"$place/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$host" >"$place/slurmd.log" 2>&1 &
pids+=($!)

# within SECONDS COMMAND...: until it succeeds.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then
      echo "gave up after waiting for: $*" >&2
      tail -n 20 "$place"/slurm*.log "$place"/out/*.log >&2 || true
      exit 1
    fi
    sleep 0.5
  done
}
idle() { sinfo -h -o %T | grep -q idle; }
within 60 idle
sinfo

# A study that takes seconds.
cat >"$place/cluster.toml" <<'TOML'
name = "small"
[[workers]]
name = "quick"
count = 2
step_seconds = 0.1
[[workers]]
name = "slow"
step_seconds = 0.2
[model]
kind = "mlp"
hidden = [8]
[dataset]
kind = "blobs"
[stop]
target_loss = 0.5
max_seconds = 300
TOML
cat >"$place/small.toml" <<'TOML'
cluster = "cluster.toml"
seeds = 4
[grid]
heterogeneity = [1, 2]
[[contenders]]
sync = "bsp"
[[contenders]]
sync = "asp"
TOML
cd "$place"
"$rubato" study small.toml --out whole --quiet >/dev/null
RUBATO=$rubato OUT=$place/out CORES=1 "$root/deploy/slurm/study.sh" small.toml 4
done_all() { [ -s out/report.html ] && [ -z "$(squeue -h)" ]; }
within 120 done_all
for file in results.json runs.csv report.html time.svg details.svg; do
  cmp "whole/$file" "out/$file"
done
wc -l out/part-*/cells.jsonl
echo "Slurm: four shares, merged, are what one run gives, to the same byte"
