#!/usr/bin/env python3
"""One cluster file in virtual time and as throttled processes: time to target and shares of both.

Usage: bench/parity.py [--rubato PROGRAM] [--target-loss X] [--seeds N] [--sync A,B] [--jobs N]
                       [--out DIR] FILE
Real runs last as long as they say. Several run at a time, so their processes share the cores.
"""
import argparse
import concurrent.futures
import json
import statistics
import subprocess
import sys

import tools

SHARES = ("compute_share", "wait_share", "communicate_share")


def results(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["runs"]


def middle(runs, value):
    return statistics.median(value(run) for run in runs)


def seconds(run):
    reached = run["time_to_target_s"]
    return float("inf") if reached is None else reached


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("file")
    arguments.add_argument("--rubato", default="build/bench/cli/rubato")
    arguments.add_argument("--target-loss", default="0.8")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--sync", default="bsp,ssp,adsp,tempo")
    arguments.add_argument("--jobs", type=int, default=4)
    arguments.add_argument("--out", default="out/parity")
    options = arguments.parse_args()
    tools.forget_pinned_kernels()
    models = options.sync.split(",")
    common = [options.file, "--target-loss", options.target_loss, "--json", "--quiet"]

    virtual = results([options.rubato, "compare", *common, "--sync", options.sync, "--seeds",
                       str(options.seeds), "--out", f"{options.out}/virtual"])
    first = min(run["seed"] for run in virtual)

    def real(model, seed):
        return results([options.rubato, "up", *common, "--throttle", "--sync", model, "--seed",
                        str(seed), "--out", f"{options.out}/{model}-{seed}"])

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        cells = [(model, first + i) for i in range(options.seeds) for model in models]
        throttled = [run for runs in pool.map(lambda cell: real(*cell), cells) for run in runs]

    print(f"{options.file}, loss {options.target_loss}, {options.seeds} seeds, medians")
    print(f"{'model':8} {'virtual s':>10} {'real s':>10} {'off':>8}   {'each seed':20} "
          "compute, wait, comm.: virtual | real")
    for model in models:
        ours = [[run for run in runs if run["sync"] == model] for runs in (virtual, throttled)]
        times = [middle(runs, seconds) for runs in ours]
        by_seed = [{run["seed"]: seconds(run) for run in runs} for runs in ours]
        each = " ".join(f"{100 * (by_seed[1][s] / by_seed[0][s] - 1):+.1f}"
                        for s in sorted(by_seed[0]))
        shares = " | ".join(", ".join(f"{100 * middle(runs, lambda r, s=share: r[s]):.1f}"
                                      for share in SHARES) for runs in ours)
        print(f"{model:8} {times[0]:10.1f} {times[1]:10.1f} {100 * (times[1] / times[0] - 1):+7.1f}% "
              f"  {each:20} {shares}")


if __name__ == "__main__":
    main()
