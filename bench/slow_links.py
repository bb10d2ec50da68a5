#!/usr/bin/env python3
"""A large model over slow links: an MLP of 51 million parameters (204 MB), two workers whose link
has 20 ms each way and 1000, 100, 50 or 10 Mb/s in `rubato up --throttle`, a commit every 100 steps
of 0.4 s under ADSP, with top-k both ways. Samples a second of all workers beside the same run whose
links are not limited: from the moment when each worker has committed once, to the end.

Heartbeats: a worker tells the scheduler its progress every 2 s, over the link that its commits take. The
profile has when each of these words was sent and handled, in one clock. The row is the 99th percentile.

Usage: bench/slow_links.py [--quick] [--json FILE] [--rubato PROGRAM]
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import tools

WORKERS, BATCH, PARAMETERS = 2, 4, 50_823_498
CLUSTER = """
[[workers]]
name = "node"
count = 2
step_seconds = 0.4
{link}
[model]
hidden = [7168, 6080]
[dataset]
kind = "blobs"
features = 1000
samples = 4000
[training]
batch = 4
learning_rate = 0.001
[wire]
up = "top-k"
down = "top-k"
[sync.adsp]
check_period_seconds = 40
fixed_rate = 1
overlap = true
[evaluation]
interval_seconds = 3600
samples = 10
[stop]
max_seconds = {seconds}
"""
METRIC = re.compile(r'^rubato_worker_(steps_total|commits_total)'
                    r'\{.*?worker="([^"]+)".*\} ([0-9.e+-]+)$', re.M)


class Watch:
    """What the scheduler's page says while a run goes on."""

    def __init__(self):
        self.seen = []   # seconds, steps and commits of all workers, once each has committed

    def look(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            text = page.read().decode()
        now = time.monotonic()
        found = {"steps_total": {}, "commits_total": {}}
        for name, worker, value in METRIC.findall(text):
            found[name][worker] = float(value)
        commits = found["commits_total"].values()
        steps = sum(found["steps_total"].values())
        if len(commits) == WORKERS and min(commits) > 0 and (
                not self.seen or steps > self.seen[-1][1]):
            self.seen.append((now, steps, sum(commits)))

    def steps_per_second(self):
        (began, first, _), (ended, last, _) = self.seen[0], self.seen[-1]
        return (last - first) / (ended - began)

    def commits(self):
        return self.seen[-1][2] - self.seen[0][2]


def delays(profile):
    """Seconds from sending to handling of each word of progress, sorted."""
    sent, handled, scheduler = {}, {}, None
    with open(profile, encoding="utf-8") as file:
        for event in json.load(file):
            if event["name"] == "process_name" and event["args"]["name"] == "scheduler":
                scheduler = event["pid"]
            elif event.get("args", {}).get("message") == "Progress":
                ends = handled if event["pid"] == scheduler else sent
                ends.setdefault(event["args"]["worker"], []).append(event["ts"] / 1e6)
    return sorted(end - begin for worker, ends in handled.items()
                  for begin, end in zip(sent[worker], ends))


def run(program, mbps, seconds):
    link = f"latency_seconds = 0.02\nup_mbps = {mbps}\ndown_mbps = {mbps}" if mbps else ""
    [port] = tools.free_ports(1)
    watch = Watch()
    # The first parameters come whole, and so does the first reply.
    first = 2 * 8 * 4 * PARAMETERS / (mbps * 1e6) if mbps else 0
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as errors:
        file = os.path.join(place, "two.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(CLUSTER.format(link=link, seconds=round(first + seconds)))
        profile = os.path.join(place, "profile.json")
        words = ["up", file, "--sync", "adsp", "--quiet", "--out",
                 os.path.join(place, "out"), "--http", str(port),
                 "--profile", profile, *(["--throttle", "--unchecked"] if mbps else [])]
        process = subprocess.Popen([program, *words], stdout=errors, stderr=errors)
        while process.poll() is None:
            time.sleep(0.05)
            with contextlib.suppress(OSError):  # the page is not there yet, or over
                watch.look(port)
        errors.seek(0)
        said = errors.read()
        words_took = delays(profile) if process.returncode == 0 else []
    lost = [line for line in said.splitlines() if "lost" in line]
    if process.returncode != 0 or not watch.seen or lost:
        sys.exit(f"slow_links: {mbps} Mb/s: {' '.join(lost) or said.strip()}")
    return watch, words_took[int(0.99 * len(words_took))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--rubato", default="build/bench/cli/rubato")
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    seconds = 130 if options.quick else 300
    rows = []
    free, _ = run(options.rubato, None, seconds)
    print(f"no limit: {free.steps_per_second() * BATCH:.2f} samples/s, {free.commits():.0f} commits",
          flush=True)
    for mbps in (1000, 100, 50, 10):
        watch, took = run(options.rubato, mbps, seconds)
        speed = watch.steps_per_second() * BATCH
        rows.append({"name": f"{mbps} Mb/s: training, {watch.commits():.0f} commits",
                     "value": speed, "unit": "samples/s", "peer": "links without limit",
                     "peer_value": free.steps_per_second() * BATCH,
                     "ratio": speed / (free.steps_per_second() * BATCH),
                     "bar": ">= 0.90" if mbps == 10 else ">= 0.95"})
        rows.append(tools.value_row(f"{mbps} Mb/s: heartbeats, 99th percentile", took, "s", "< 1"))
        for row in rows[-2:]:
            print(f"{row['name']:50} {row['value']:8.3g} {row['unit']} (bar {row['bar']})"
                  + (f" {row['ratio']:.3f}" if row["ratio"] else ""), flush=True)
    tools.write_rows(options.json, rows)


if __name__ == "__main__":
    main()
