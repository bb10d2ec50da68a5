#!/usr/bin/env python3
"""Training speed of the cpu device beside PyTorch: both on one thread, the same models and batches,
taking turns on the same machine; medians of CPU time.

Usage: bench/cpu_step.py [--json FILE] [--rounds N] [--seconds S] [CASE...]
  cases: mlp lenet cnn lstm cnn1d svm (default: all but svm)
  OURS: bench_cpu_step, build/bench/bench/bench_cpu_step by default
"""

import argparse
import os
import statistics
import subprocess
import sys

import tools

HERE = os.path.dirname(os.path.abspath(__file__))
# Title, and how many times as fast as PyTorch (design, section 9); svm has no bar.
CASES = {
    "mlp": ("MLP 784-64-10, batch 32", 1.2),
    "lenet": ("LeNet 1x28x28, batch 128", 2.0),
    "cnn": ("Cifar CNN with LRN 3x32x32, batch 128", 1.5),
    "lstm": ("LSTM(64) 128 steps, batch 32", 2.0),
    "cnn1d": ("CNN over 128 steps of 9, batch 32", 1.5),
    "svm": ("SVM 8 features, batch 32", None),
}
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch


class Runner:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def measure(self, case, seconds):
        self.process.stdin.write(f"{case} {seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"cpu_step: {self.process.args[0]} ended early")
        return float(line)


def has_pytorch():
    return subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    cases = options.cases or ["mlp", "lenet", "cnn", "lstm", "cnn1d"]
    for case in cases:
        if case not in CASES:
            parser.error(f"no case {case}; there are {', '.join(CASES)}")

    tools.forget_pinned_kernels()
    environment = dict(os.environ)
    ours = Runner([os.environ.get("OURS", os.path.join(HERE, "../build/bench/bench/bench_cpu_step"))],
                  environment)
    peer = None
    if has_pytorch():  # its OpenBLAS takes its thread count from the environment only
        peer = Runner([PYTHON, os.path.join(HERE, "pytorch_step.py")],
                      environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    else:
        print("no PyTorch, ours alone; to compare: deploy/install.sh bench", file=sys.stderr)

    rows = []
    print(f"{'samples a second, one thread':40} {'rubato':>10} {'PyTorch':>10} {'ratio':>7} {'bar':>5}")
    for case in cases:
        title, bar = CASES[case]
        own, other = [], []
        for _ in range(options.rounds):
            own.append(ours.measure(case, options.seconds))
            if peer:
                other.append(peer.measure(case, options.seconds))
        value = statistics.median(own)
        row = {"name": title, "value": value, "unit": "samples/s", "peer": "PyTorch",
               "peer_value": None, "ratio": None, "bar": f">= {bar}" if bar else None}
        line = f"{title:40} {value:10.0f}"
        if peer:
            peer_value = statistics.median(other)
            row |= {"peer_value": peer_value, "ratio": value / peer_value}
            line += f" {peer_value:10.0f} {value / peer_value:7.2f}"
            if bar:
                line += f" {bar:5.1f}"
        print(line, flush=True)
        rows.append(row)
    tools.write_rows(options.json, rows)


main()
