#!/usr/bin/env python3
"""Peak memory (VmHWM) of real worker and server processes that train a 64 MiB model under ASP, less
that of the same processes with a model of a few KiB. What a process only reads of another one's
memory is counted there.

Usage: bench/memory.py [--quick | --smoke] [--json FILE]   after bench/run.sh has built the programs
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import tools

RUBATO = "build/bench/cli/rubato"
MIB = 1 << 20
CHUNK = MIB
BATCH, FEATURES, CLASSES = 32, 1024, 10
CLUSTER = """
[[workers]]
name = "node"
count = {workers}
step_seconds = 0.001
[model]
hidden = [{hidden}]
[dataset]
kind = "blobs"
features = 1024
samples = 1000
[training]
batch = 32
learning_rate = 0.0001
[evaluation]
interval_seconds = 3600
[stop]
max_steps = {steps}
max_seconds = 120
"""
# What may be in flight for one worker, each way: the credit of a worker, and as much being handed
# to the kernel.
CHUNKS_IN_FLIGHT = 8


def peak_bytes(pid):
    """VmHWM, or 0 where the process is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def foreign_bytes(pid):
    """Resident memory that belongs to another process: what that one lends is mapped for reading."""
    total, foreign = 0, False
    try:
        with open(f"/proc/{pid}/smaps", encoding="ascii") as file:
            for line in file:
                if "-" in line.split(" ", 1)[0]:
                    foreign = "memfd:rubato" in line and " r--s " in line
                elif foreign and line.startswith("Rss:"):
                    total += int(line.split()[1]) * 1024
    except OSError:
        pass
    return total


def train(directory, workers, hidden, steps):
    """Runs one cluster to its end. Returns: peak bytes of the server, and of the largest worker."""
    file = os.path.join(directory, "cluster.toml")
    with open(file, "w", encoding="ascii") as out:
        out.write(CLUSTER.format(workers=workers, hidden=hidden, steps=steps))
    scheduler, server = (f"tcp://127.0.0.1:{port}" for port in tools.free_ports(2))
    names = ["node"] if workers == 1 else [f"node-{i}" for i in range(workers)]
    common = [file, "--sync", "asp", "--quiet"]
    joined = common + ["--scheduler", scheduler]
    commands = [["scheduler"] + common + ["--bind", scheduler, "--out", directory + "/out"],
                ["server"] + joined + ["--bind", server]]
    commands += [["worker"] + joined + ["--name", name] for name in names]
    log = open(os.path.join(directory, "log"), "w", encoding="utf-8")
    nodes = [subprocess.Popen([RUBATO] + command, stdout=log, stderr=log) for command in commands]
    peaks = [0] * len(nodes)
    lent = [0] * len(nodes)
    deadline = time.monotonic() + 180
    while any(node.poll() is None for node in nodes) and time.monotonic() < deadline:
        peaks = [max(old, peak_bytes(node.pid)) for old, node in zip(peaks, nodes)]
        lent = [max(old, foreign_bytes(node.pid)) for old, node in zip(lent, nodes)]
        time.sleep(0.01)
    for node in nodes:
        node.kill()
        node.wait()
    log.close()
    if any(node.returncode for node in nodes):
        with open(log.name, encoding="utf-8") as file:
            sys.exit("memory: a node failed:\n" + file.read())
    own = [peak - foreign for peak, foreign in zip(peaks, lent)]
    return own[1], max(own[2:])


def row(name, used, allowed, text):
    print(f"{name:<44} {used / MIB:8.1f} MiB, {text} {allowed / MIB:.1f}, "
          f"ratio {used / allowed:.3f}")
    return {"name": name, "value": round(used / MIB, 2), "unit": "MiB", "peer": text,
            "peer_value": round(allowed / MIB, 2), "ratio": round(used / allowed, 4),
            "bar": "<= 1"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one worker only")
    parser.add_argument("--smoke", action="store_true", help="a 1 MiB model")
    parser.add_argument("--json")
    options = parser.parse_args()
    model = MIB if options.smoke else 64 * MIB
    hidden = (model // 4) // (FEATURES + CLASSES + 1)
    activations = 3 * 4 * BATCH * (FEATURES + hidden + CLASSES)
    rows = []
    for workers in [1] if options.quick or options.smoke else [1, 4]:
        with tempfile.TemporaryDirectory() as directory:
            server, worker = train(directory, workers, hidden, 30 * workers)
            idle_server, idle_worker = train(directory, workers, 1, 30 * workers)
        name = f"{model // MIB} MiB model, {workers} worker{'s' if workers > 1 else ''}"
        rows.append(row(f"{name}: worker", worker - idle_worker, 4 * model + activations,
                        "4 x model + batch"))
        rows.append(row(f"{name}: server", server - idle_server,
                        2 * model + CHUNKS_IN_FLIGHT * CHUNK * workers,
                        "2 x shard + chunks in flight"))
    tools.write_rows(options.json, rows)


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    tools.forget_pinned_kernels()
    main()
