#!/usr/bin/env python3
"""What training.early_forward gains real processes: a worker that trains the CNN on Fashion-MNIST
in one network namespace, scheduler and servers in another, `tc tbf` on both ends of the link between
them, a commit after every step. With and without it in turns; a row is the median of the turns.
Needs root, and dataset-fashion-mnist.
Usage: bench/early_links.py [--quick | --smoke] [--json FILE] [--rubato PROGRAM]"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import tools

MBIT = 20  # bytes of the model take about a step, in one direction
CLUSTER = """
[[workers]]
name = "node"
step_seconds = 1
[servers]
count = {servers}
[model]
kind = "cnn"
[dataset]
kind = "fashion-mnist"
samples = 5000
[training]
batch = 64
learning_rate = 0.001
early_forward = {early}
[evaluation]
interval_seconds = 3600
samples = 1
[wire]
chunk_kib = 8
[stop]
max_seconds = {seconds}
"""


class Link:
    """Two network namespaces and a shaped link between them: near is 10.77.1.1, far 10.77.1.2."""

    def __enter__(self):
        self.near, self.far = (f"rubato-{end}-{os.getpid()}" for end in ("near", "far"))
        ip("netns", "add", self.near)
        ip("netns", "add", self.far)
        ip("link", "add", "near", "netns", self.near, "type", "veth",
           "peer", "name", "far", "netns", self.far)
        for space, device, address in ((self.near, "near", 1), (self.far, "far", 2)):
            ip("-n", space, "link", "set", device, "up")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "address", "add", f"10.77.1.{address}/24", "dev", device)
            subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                            f"{MBIT}mbit", "burst", "16kb", "latency", "50ms"], check=True)
        return self

    def __exit__(self, *_):
        for space in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", space], check=False)


def no_link():
    """Returns: why no link can be made; empty where one can."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in ("ip", "tc") if not shutil.which(name)]
    return f"needs {absent[0]}, of the package iproute2" if absent else ""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def run(rubato, link, port, sync, servers, early, seconds):
    """Returns: seconds from commit to commit, and those of them that blocked the worker."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as ends:
        config = os.path.join(place, "cluster.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CLUSTER.format(servers=servers, early=str(early).lower(), seconds=seconds))

        def start(space, role, *arguments):
            process = subprocess.Popen(
                ["ip", "netns", "exec", space, rubato, role, config, "--sync", sync, "--quiet",
                 *arguments],
                stdout=subprocess.PIPE if role == "scheduler" else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            ends.callback(process.kill)
            return process

        here = f"tcp://10.77.1.2:{port}"
        scheduler = start(link.far, "scheduler", "--bind", here, "--insecure", "--json", "--out",
                          os.path.join(place, "out"))
        for i in range(servers):
            start(link.far, "server", "--bind", f"tcp://10.77.1.2:{port + 1 + i}", "--scheduler",
                  here, "--insecure")
        start(link.near, "worker", "--scheduler", here, "--name", "node", "--insecure")
        out, _ = scheduler.communicate(timeout=seconds + 60)
        record = json.loads(out)["runs"][0]
        worker = record["workers"][0]
        return record["seconds"] / worker["commits"], worker["communicate_s"] / worker["commits"]


def measure(options, link, absent=""):
    """The rows; without a link only their names, and why there is none."""
    rows = []
    port = 21000
    turns, seconds = (1, 3) if options.smoke else (2, 12) if options.quick else (3, 20)
    for sync in ("asp", "bsp"):
        for servers in (1, 4):
            found = {False: [], True: []}
            for _ in range(turns if link else 0):
                for early in (False, True):
                    port += 10
                    found[early].append(
                        run(options.rubato, link, port, sync, servers, early, seconds))
            for index, what in ((0, "commit to commit"), (1, "blocked")):
                name = (f"{MBIT} Mb/s, cnn, {sync}, {servers} "
                        f"server{'s' if servers > 1 else ''}: {what}")
                if not link:
                    rows.append({"name": name, "value": None, "unit": "s", "peer": None,
                                 "peer_value": None, "ratio": None, "bar": None,
                                 "absent": absent})
                    print(f"{name:<50} (absent: {absent})")
                    continue
                late, soon = (statistics.median(turn[index] for turn in found[early])
                              for early in (False, True))
                rows.append({"name": name, "value": soon, "unit": "s", "peer": "without",
                             "peer_value": late, "ratio": soon / late, "bar": None})
                print(f"{name:<50} {soon:.4f} s, without {late:.4f}, "
                      f"ratio {soon / late:.3f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rubato", default="build/bench/cli/rubato")
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    if absent := no_link():
        rows = measure(options, None, absent)
    else:
        with Link() as link:
            rows = measure(options, link)
    tools.write_rows(options.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
