#!/usr/bin/env python3
"""Looks at the live page of a run in headless Chromium: it shows the members, draws the curve, grows
by itself, and has no errors.

Usage: tests/live_page.py [RUBATO]      RUBATO: default build/dev/cli/rubato
Exit code: 0 it does; 1 it does not; 77 Chromium is missing.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import browser
from browser import PATIENCE, fail

CLUSTER = """
name = "watched"
[[workers]]
name = "box"
count = 2
step_seconds = 0.05
[[workers]]
name = "slow"
step_seconds = 0.15
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 600
"""
# What a reader sees: steps of the run, names of the members, and whether the curve is drawn.
LOOK = """(() => {
  const text = (node) => node ? node.textContent : '';
  const steps = text(document.getElementById('live-line')).match(/, ([0-9,]+) steps/);
  const names = [...document.querySelectorAll('#members tbody th')].map(text);
  const curve = Chart.getChart('loss-time');
  const headline = text(document.querySelector('h1')).replace(/\\u00a0/g, ' ');
  return JSON.stringify({headline, steps: steps ? Number(steps[1].replace(/,/g, '')) : -1, names,
                         points: curve ? curve.data.datasets[0].data.length : 0});
})()"""


def url_in(log):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search("live page: (.*)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    fail("no live page: " + log.read_text())


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    rubato = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "build/dev/cli/rubato")
    if not browser.is_here():
        print("skipped: chromium is missing")
        sys.exit(77)
    # These pin kernels.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        place = pathlib.Path(directory)
        (place / "cluster.toml").write_text(CLUSTER)
        log = place / "log"
        with log.open("w") as lines:
            up = subprocess.Popen([rubato.resolve(), "up", "cluster.toml", "--sync", "adsp",
                                   "--http", "0"], cwd=place, env=kept, stderr=lines,
                                  stdout=subprocess.DEVNULL)
        chromium = browser.Browser(place)
        try:
            chromium.open(url_in(log))
            chromium.wait_until("all members", LOOK,
                                lambda seen: seen["names"] == ["box-0", "box-1", "slow"])
            first = chromium.wait_until("steps", LOOK, lambda seen: seen["steps"] > 0)
            later = chromium.wait_until(
                "more steps and a longer curve", LOOK,
                lambda seen: seen["steps"] > first["steps"] and seen["points"] > first["points"] + 1)
            chromium.wait_until("loss and time left as its headline", LOOK, lambda seen: re.match(
                r"Loss [0-9.]+, .* left$", seen["headline"]))
            if chromium.errors:
                fail(f"the page has errors: {chromium.errors}")
            print(f"the live page grew from {first['steps']} to {later['steps']} steps, and from "
                  f"{first['points']} to {later['points']} points of the curve")
        finally:
            chromium.end()
            up.terminate()
            up.wait(PATIENCE)


main()
