"""Chromium without a window, for tests that look at pages. Packages: deploy/install.sh browser"""
import json
import os
import select
import shutil
import subprocess
import sys
import time

PATIENCE = 60  # s; far above what anything takes


def fail(words):
    print(words, file=sys.stderr)
    sys.exit(1)


def is_here():
    return shutil.which("chromium") is not None


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
        self.target = None

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

    def open(self, url, width=None, dark=False):
        """In a tab of its own, in the place of the one before."""
        if self.target:
            self.call("Target.closeTarget", targetId=self.target)
        self.target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=self.target,
                                 flatten=True)["sessionId"]
        self.call("Runtime.enable", self.session)
        self.call("Log.enable", self.session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", self.session, features=[scheme])
        if width:
            self.call("Emulation.setDeviceMetricsOverride", self.session, width=width, height=900,
                      deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", self.session, url=url)

    def look(self, expression):
        """What a script in the page says, a JSON text; None as long as it says none."""
        result = self.call("Runtime.evaluate", self.session, expression=expression)["result"]
        return json.loads(result["value"]) if result.get("type") == "string" else None

    def wait_until(self, what, expression, holds):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            seen = self.look(expression)
            if seen and holds(seen):
                return seen
            time.sleep(0.2)
        fail(f"the page never showed {what}; it shows {seen}; errors: {self.errors}")

    def end(self):
        self.process.kill()
        self.process.wait()
