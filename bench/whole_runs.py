#!/usr/bin/env python3
"""Whole runs of three unequal workers as processes: seconds of training until the held-out loss
reaches a target, ADSP and tempo beside PyTorch's DistributedDataParallel over gloo. All train
784-64-10 on Fashion-MNIST with mini-batches of 32. Two workers make a step in 0.1 s, one in 0.3 s;
links are those of the loopback. One row has the same learning rate for both, one the best of each.

Usage: bench/whole_runs.py [--quick] [--json FILE] [--rubato PROGRAM]
"""
import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import tools

STEPS = (0.1, 0.1, 0.3)
TARGET = 0.45
RATE = 0.05  # of deploy/clusters/edge-3.toml
MOST = 900
EVERY = 0.9  # seconds from one measurement to the next: three steps of the slowest
CLUSTER = """
[[workers]]
name = "pi"
count = 2
step_seconds = 0.1
[[workers]]
name = "slow"
step_seconds = 0.3
[model]
kind = "mlp"
hidden = [64]
[dataset]
kind = "fashion-mnist"
[training]
batch = 32
learning_rate = {rate}
[sync.adsp]
check_period_seconds = 12
[evaluation]
interval_seconds = {every}
[stop]
target_loss = {target}
max_seconds = {most}
"""


def rubato(program, sync, rate, seed):
    with tempfile.TemporaryDirectory() as place:
        file = os.path.join(place, "three.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(CLUSTER.format(rate=rate, every=EVERY, target=TARGET, most=MOST))
        words = ["up", file, "--sync", sync, "--seed", str(seed), "--json", "--quiet", "--out",
                 os.path.join(place, "out")]
        done = subprocess.run([program, *words], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        sys.exit(f"whole_runs: {done.stderr.strip()}")
    return json.loads(done.stdout)["runs"][0]["time_to_target_s"]


def pytorch(rate, seed):
    [port] = tools.free_ports(1)
    processes = []
    for rank, step in enumerate(STEPS):
        words = [rank, len(STEPS), port, step, rate, TARGET, MOST, round(EVERY / max(STEPS)), seed]
        processes.append(subprocess.Popen(
            ["/usr/bin/python3", "bench/pytorch_run.py", *(str(word) for word in words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=2 * MOST) for process in processes]
    for process, (_, error) in zip(processes, said):
        if process.returncode != 0:
            sys.exit(f"whole_runs: pytorch_run.py: {error.strip()}")
    seconds = said[0][0].split()[0]
    return None if seconds == "none" else float(seconds)


def medians(name, run, rates, seeds):
    """Of each rate the median time to the target over the seeds: seconds; infinite where missed."""
    found = {}
    for rate in rates:
        with concurrent.futures.ThreadPoolExecutor() as pool:  # a run sleeps nearly all of the time
            times = list(pool.map(lambda seed: run(rate, seed), seeds))
        found[rate] = statistics.median(math.inf if time is None else time for time in times)
        words = ", ".join("missed" if time is None else f"{time:.1f}" for time in times)
        print(f"{name:30} rate {rate:5g}: {found[rate]:7.1f} s ({words})", flush=True)
    return found


def row(name, value, peer, peer_value):
    reached = math.isfinite(value) and math.isfinite(peer_value)
    return {"name": name, "value": value if math.isfinite(value) else None, "unit": "s",
            "peer": peer, "peer_value": peer_value if math.isfinite(peer_value) else None,
            "ratio": value / peer_value if reached else None, "bar": "<= 0.5"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--rubato", default="build/bench/cli/rubato")
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    rates = (RATE, 0.15) if options.quick else (RATE, 0.1, 0.15, 0.3)
    seeds = (1,) if options.quick else (1, 2, 3)
    peers = medians("DistributedDataParallel, gloo", pytorch, rates, seeds)
    peer = min(peers, key=peers.get)
    rows = []
    for sync in ("adsp", "tempo"):
        own = medians(f"rubato up, {sync}",
                      lambda rate, seed, sync=sync: rubato(options.rubato, sync, rate, seed), rates,
                      seeds)
        rows.append(row(f"{sync}, rate {RATE:g}: time to loss {TARGET}", own[RATE],
                        "DistributedDataParallel", peers[RATE]))
        rate = min(own, key=own.get)
        rows.append(row(f"{sync}, its best rate {rate:g}", own[rate],
                        f"its best rate {peer:g}", peers[peer]))
    tools.write_rows(options.json, rows)


if __name__ == "__main__":
    main()
