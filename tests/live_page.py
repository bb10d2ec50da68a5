#!/usr/bin/env python3
"""Looks at the live page of a run in headless Chromium: it shows the members, draws the curve, grows
by itself, and has no errors.

Usage: tests/live_page.py [RUBATO]      RUBATO: default build/dev/cli/rubato
Exit code: 0 it does; 1 it does not; 77 Chromium is missing.
"""
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 60  # s; far above what anything takes
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
  return JSON.stringify({steps: steps ? Number(steps[1].replace(/,/g, '')) : -1, names,
                         points: curve ? curve.data.datasets[0].data.length : 0});
})()"""


def fail(words):
    print(words, file=sys.stderr)
    sys.exit(1)


class Browser:
    """Chromium, asked through a pair of pipes (its debugging protocol)."""

    def __init__(self, place):
        questions, self.ask_at = os.pipe()
        self.hear_at, answers = os.pipe()

        def as_3_and_4():
            os.dup2(questions, 203)
            os.dup2(answers, 204)
            os.dup2(203, 3)
            os.dup2(204, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
             f"--user-data-dir={place}/chromium", "--remote-debugging-pipe"],
            preexec_fn=as_3_and_4, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(questions)
        os.close(answers)
        self.heard = b""
        self.number = 0
        self.errors = []

    def hear(self, until):
        """The next message of the browser."""
        while b"\0" not in self.heard:
            ready, _, _ = select.select([self.hear_at], [], [], max(0, until - time.monotonic()))
            piece = os.read(self.hear_at, 1 << 16) if ready else b""
            if not piece:
                fail("no word from Chromium")
            self.heard += piece
        message, self.heard = self.heard.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"])
        return message

    def call(self, method, session=None, **params):
        self.number += 1
        question = {"id": self.number, "method": method, "params": params}
        if session:
            question["sessionId"] = session
        os.write(self.ask_at, json.dumps(question).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self.hear(until)
            if message.get("id") == self.number:
                if "error" in message:
                    fail(f"{method}: {message['error']}")
                return message["result"]

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.call("Runtime.enable", self.session)
        self.call("Log.enable", self.session)
        self.call("Page.navigate", self.session, url=url)

    def look(self):
        result = self.call("Runtime.evaluate", self.session, expression=LOOK)["result"]
        return json.loads(result["value"]) if result.get("type") == "string" else None

    def wait_until(self, what, holds):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            seen = self.look()
            if seen and holds(seen):
                return seen
            time.sleep(0.2)
        fail(f"the page never showed {what}; it shows {seen}; errors: {self.errors}")

    def end(self):
        self.process.kill()
        self.process.wait()


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
    if not shutil.which("chromium"):
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
        browser = Browser(place)
        try:
            browser.open(url_in(log))
            browser.wait_until("all members",
                               lambda seen: seen["names"] == ["box-0", "box-1", "slow"])
            first = browser.wait_until("steps", lambda seen: seen["steps"] > 0)
            later = browser.wait_until(
                "more steps and a longer curve",
                lambda seen: seen["steps"] > first["steps"] and seen["points"] > first["points"] + 1)
            if browser.errors:
                fail(f"the page has errors: {browser.errors}")
            print(f"the live page grew from {first['steps']} to {later['steps']} steps, and from "
                  f"{first['points']} to {later['points']} points of the curve")
        finally:
            browser.end()
            up.terminate()
            up.wait(PATIENCE)


main()
