#!/usr/bin/env python3
"""One cluster file in virtual time, as throttled processes, and as containers: time to target and
shares of each.

Usage: bench/parity.py [--rubato PROGRAM] [--containers IMAGE] [--target-loss X] [--seeds N]
                       [--sync A,B] [--jobs N] [--out DIR] FILE
Real runs last as long as they say. Several run at a time, so their processes share the cores.
Containers need Docker with docker-compose, and an image with the data (docs/containers.md).
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import tools

# The devices and links that a file may name.
DEVICES = os.path.join(os.path.dirname(__file__), "..", "deploy", "devices.toml")
SHARES = ("compute_share", "wait_share", "communicate_share")


def output(command, tries=1, **options):
    for left in reversed(range(tries)):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        if done.returncode == 0:
            return done.stdout
        failed = f"{' '.join(command)}: {done.stderr.strip()}"
        if left:
            print(f"{failed}: tried again", file=sys.stderr, flush=True)
    sys.exit(failed)


def contained(options, model, seed):
    """The run of one cluster of containers, which is gone afterwards."""
    name = f"parity-{os.getpid()}-{model}-{seed}"
    with open(options.file, encoding="utf-8") as file:
        lines = file.read().splitlines()
    lines = [f"target_loss = {options.target_loss}" if line.startswith("target_loss") else line
             for line in lines]
    with tempfile.TemporaryDirectory(prefix="parity-") as place:
        os.chmod(place, 0o755)
        shutil.copy(DEVICES, place)
        with open(os.path.join(place, "cluster.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join([f"seed = {seed}", *lines, ""]))
        yaml = output([os.path.abspath(options.rubato), "compose", "cluster.toml", "--sync", model,
                       "--image", options.containers], cwd=place)
        # Health checks of so many containers at once cost more than the clusters themselves.
        with open(os.path.join(place, "compose.yaml"), "w", encoding="utf-8") as file:
            file.write(yaml.replace("interval: 10s", "interval: 10m"))
        compose = ["docker-compose", "-p", name, "-f", os.path.join(place, "compose.yaml")]
        try:
            output([*compose, "up", "-d"])
            scheduler = output([*compose, "ps", "-q", "scheduler"]).strip()
            status = output(["docker", "wait", scheduler]).strip()
            if status != "0":
                sys.exit(f"{name}: the scheduler ended with {status}: "
                         + output(["docker", "logs", "--tail", "5", scheduler]))
            return json.loads(output(
                ["docker", "run", "--rm", "-v", f"{name}_results:/kept:ro", "--entrypoint", "cat",
                 options.containers, "/kept/results/results.json"]))["runs"]
        finally:
            output([*compose, "down", "-v"])


def seconds(run):
    reached = run["time_to_target_s"]
    return float("inf") if reached is None else reached


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def shares(runs):
    return ", ".join(f"{100 * statistics.median(run[share] for run in runs):.1f}"
                     for share in SHARES)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("file")
    arguments.add_argument("--rubato", default="build/bench/cli/rubato")
    arguments.add_argument("--containers", metavar="IMAGE")
    arguments.add_argument("--target-loss", default="0.8")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--sync", default="bsp,ssp,adsp,tempo")
    arguments.add_argument("--jobs", type=int, default=4)
    arguments.add_argument("--out", default="out/parity")
    options = arguments.parse_args()
    tools.forget_pinned_kernels()
    models = options.sync.split(",")
    common = [options.file, "--target-loss", options.target_loss, "--json", "--quiet"]

    virtual = json.loads(output(
        [options.rubato, "compare", *common, "--sync", options.sync, "--seeds", str(options.seeds),
         "--out", f"{options.out}/virtual", "--overwrite"]))["runs"]
    first = min(run["seed"] for run in virtual)

    def processes(model, seed):
        # `up` ends where the machine did not deliver a link. Containers then start again themselves.
        return json.loads(output(
            [options.rubato, "up", *common, "--throttle", "--sync", model, "--seed", str(seed),
             "--out", f"{options.out}/{model}-{seed}", "--overwrite"], tries=3))["runs"]

    ways = {"virtual": virtual}
    cells = [(model, first + i) for i in range(options.seeds) for model in models]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        real = {"processes": processes}
        if options.containers:
            real["containers"] = lambda model, seed: contained(options, model, seed)
        # In turns: what else the machine does meanwhile disturbs each way alike.
        under_way = [(way, pool.submit(run, *cell)) for cell in cells for way, run in real.items()]
        for way, runs in under_way:
            ways.setdefault(way, []).extend(runs.result())

    print(f"{options.file}, loss {options.target_loss}, {options.seeds} seeds. Seconds and shares are"
          " medians; off: of the medians; by seed: the median of what each seed is off by.")
    print(f"{'model':8} {'way':10} {'seconds':>8} {'off':>8} {'by seed':>8}  "
          f"{'compute, wait, comm.':20}  each seed")
    for model in models:
        of = {way: [run for run in runs if run["sync"] == model] for way, runs in ways.items()}
        by_seed = {way: {run["seed"]: seconds(run) for run in runs} for way, runs in of.items()}
        asked = by_seed["virtual"]
        for way, got in by_seed.items():
            time = statistics.median(got.values())
            off, paired, each = "", "", []
            if way != "virtual":
                ratios = [got[seed] / asked[seed] for seed in asked]
                off = percent(time / statistics.median(asked.values()))
                paired = percent(statistics.median(ratios))
                each = [percent(ratio) for ratio in ratios]
            print(f"{model:8} {way:10} {time:8.1f} {off:>8} {paired:>8}  {shares(of[way]):20}  "
                  + " ".join(each))


if __name__ == "__main__":
    main()
