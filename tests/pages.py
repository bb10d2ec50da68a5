#!/usr/bin/env python3
"""Makes every kind of page and picture with the command, on data that take seconds, and parses
them: pictures as XML, pages as strict HTML whose data are JSON. Where Chromium is installed, it also
opens each page, in light and dark and on a narrow window, and reads what went wrong.

Usage: tests/pages.py [--no-browser] [RUBATO]      RUBATO: default build/release/cli/rubato
       tests/pages.py --parse FILE...              parses pages and pictures that are there already
Exit code: 0 all are well; 1 one is not: a line names it.
"""
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import xml.etree.ElementTree

import browser
from browser import PATIENCE, fail

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A model of each kind of dash and mark.
MODELS = ["bsp", "asp", "ssp", "adsp", "local-sgd", "adacomm", "tempo"]
CLUSTER = """
name = "toy"
[[workers]]
name = "box"
count = 2
step_seconds = 0.05
[[workers]]
name = "slow"
step_seconds = 0.2
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
[sync.adsp]
check_period_seconds = 5
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 20
"""
STUDY = """
question = "What <b>costs</b> unequal speed & how much?"
cluster = "toy.toml"
seeds = 2
[set]
stop.target_loss = 0.1
""" + "".join(f'[[contenders]]\nname = "{model} & <co>"\nsync = "{model}"\n' for model in MODELS)
LINES = STUDY + "[grid]\nheterogeneity = [1, 2, 4, 30]\n"
BARS = STUDY + """
[[cases]]
name = "small"
set = { training.batch = 8 }
[[cases]]
name = "large & <late>"
set = { training.batch = 64, stop.max_seconds = 1 }
"""
RENT = CLUSTER.replace('kind = "blobs"', 'path = "rent.csv"\nkind = "csv"\ntask = "regression"')
LONG = CLUSTER.replace("max_seconds = 20", "max_seconds = 600\ntarget_loss = 0.001")
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "col"}


class Page(html.parser.HTMLParser):
    """Every element that begins ends, in the order of nesting, and the page's data are JSON."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.opened = []
        self.ids = set()
        self.data = None
        self.faults = []

    def fault(self, words):
        self.faults.append(f"line {self.getpos()[0]}: {words}")

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names):
            self.fault(f"<{tag}> has an attribute twice")
        own = dict(attributes).get("id")
        if own in self.ids:
            self.fault(f"a second element has the id {own}")
        if own:
            self.ids.add(own)
        if tag not in VOID:
            self.opened.append((tag, own))

    def handle_endtag(self, tag):
        if not self.opened or self.opened[-1][0] != tag:
            self.fault(f"</{tag}> ends {self.opened[-1] if self.opened else 'nothing'}")
        else:
            self.opened.pop()

    def handle_data(self, data):
        if self.opened and self.opened[-1] == ("script", "data"):
            self.data = (self.data or "") + data
        elif "{{" in data and not self.opened[-1][0] == "script":
            self.fault("a place that was not filled: " + data.strip())


def faults_of_page(text):
    page = Page()
    page.feed(text)
    page.close()
    if page.opened:
        page.fault(f"{page.opened[-1]} never ends")
    if not text.startswith("<!doctype html>"):
        page.fault("no <!doctype html> at the beginning")
    try:
        data = json.loads(page.data or "")
        if not isinstance(data, dict):
            page.fault("its data are no JSON object")
    except ValueError as error:
        page.fault(f"its data are no JSON: {error}")
    return page.faults


def faults_of_picture(text):
    try:
        root = xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        return [f"no XML: {error}"]
    dashes = {line.get("stroke-dasharray") for line in root.iter() if line.get("stroke-dasharray")}
    return [f"stroke-dasharray is {dash!r}" for dash in dashes
            if not re.fullmatch(r"none|[0-9. ]+", dash)]


def parse(files):
    """Prints a line for each fault. Returns: how many."""
    found = 0
    for file in files:
        try:
            text = pathlib.Path(file).read_bytes().decode()
            faults = (faults_of_picture if str(file).endswith(".svg") else faults_of_page)(text)
        except (OSError, UnicodeDecodeError) as error:
            faults = [str(error)]
        found += len(faults)
        for fault in faults:
            print(f"{file}: {fault}", file=sys.stderr)
    return found


def run(rubato, place, *words):
    done = subprocess.run([rubato, *words], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):  # 3: a target that was not reached
        fail(f"rubato {' '.join(words)}: exit code {done.returncode}: {done.stderr}")


def live(rubato, place, name, *words):
    """Saves the page of a command that goes on, once its data have changed."""
    log = place / (name + ".log")
    with log.open("w") as lines:
        command = subprocess.Popen([rubato, *words, "--http", "0"], cwd=place, stderr=lines,
                                   stdout=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    first = None
    try:
        while time.monotonic() < until:
            url = re.search("live page: (.*)", log.read_text())
            if url:
                with urllib.request.urlopen(url[1], timeout=PATIENCE) as answer:
                    text = answer.read().decode()
                if first and text != first:
                    (place / (name + ".html")).write_text(text)
                    return
                first = first or text
            time.sleep(0.2)
        fail(f"{name}: no page that grows: {log.read_text()}")
    finally:
        command.terminate()
        command.wait(PATIENCE)


def make_everything(rubato, place):
    rent = [f"{size},{age},{12 * size - 3 * age + 400}" for size in range(20, 120, 2)
            for age in range(0, 80, 4)]
    files = {"toy.toml": CLUSTER, "long.toml": LONG, "rent.toml": RENT, "lines.toml": LINES,
             "bars.toml": BARS, "timing.toml": CLUSTER.split("[model]")[0] + "[stop]\nmax_seconds = 20\n",
             "rent.csv": "\n".join(["size,age,rent", *rent, ""]),
             "toy.csv": "\n".join(["x,y,label", *(f"{i % 7},{i % 5},{i % 2}" for i in range(200)), ""])}
    files["own.toml"] = CLUSTER.replace('kind = "blobs"', 'path = "toy.csv"\nkind = "csv"')
    files["long-study.toml"] = LINES.replace("seeds = 2", "seeds = 900")
    for name, text in files.items():
        (place / name).write_text(text)
    quiet = "--quiet"
    run(rubato, place, "compare", "toy.toml", "--seeds", "2", "--target-loss", "0.1", "--out", "a", quiet)
    run(rubato, place, "compare", "toy.toml", "--sync", ",".join(MODELS), "--target-loss", "0.1",
        "--out", "b", quiet)
    run(rubato, place, "compare-runs", "a", "b", "--html", "runs.html", "--svg", "runs.svg")
    (place / "goal.toml").write_text(CLUSTER.replace("max_seconds", "target_loss = 0.3\nmax_seconds"))
    run(rubato, place, "whatif", "goal.toml", "--sync", "asp,bsp", "--without", "slow",
        "--seeds", "2", "--html", "whatif.html")
    run(rubato, place, "bounds", "goal.toml", "--sync", "asp,bsp", "--seeds", "1",
        "--html", "bounds.html")
    run(rubato, place, "compare", "rent.toml", "--sync", "bsp", "--save", "--out", "rent", quiet)
    run(rubato, place, "evaluate", "rent/bsp-1/model.safetensors", "--data", "rent.csv", "--out", "rent-eval")
    run(rubato, place, "compare", "own.toml", "--sync", "bsp", "--save", "--out", "own", quiet)
    run(rubato, place, "evaluate", "own/bsp-1/model.safetensors", "--data", "toy.csv", "--out", "own-eval")
    run(rubato, place, "study", "lines.toml", "--out", "lines", quiet)
    run(rubato, place, "study", "bars.toml", "--out", "bars", quiet)
    live(rubato, place, "live-run", "up", "long.toml", "--sync", "adsp", "--out", "live")
    live(rubato, place, "live-study", "study", "long-study.toml", "--out", "live-study")


def sees_faults():
    """Each fault that the parsers are for, in a text of its own; and deploy/studies/check names one."""
    good = '<!doctype html><p><script id="data">{"a": 1}</script></p>'
    bad_pages = ["", good.replace("{", "["), good.replace("<p>", ""), good.replace("</p>", ""),
                 good.replace("<p>", '<p id="data">'), good.replace("<p>", "<p>{{title}}"),
                 good.replace("<!doctype html>", "")]
    picture = '<svg xmlns="http://www.w3.org/2000/svg"><path stroke-dasharray="7 4"/></svg>'
    bad_pictures = ["", picture.replace("7 4", "\0"), picture.replace("7 4", "&"),
                    picture.replace("7 4", "Z 4"), picture.replace("</svg>", "")]
    if faults_of_page(good) or faults_of_picture(picture):
        fail("the parsers see a fault where there is none")
    for text in bad_pages:
        if not faults_of_page(text):
            fail(f"the parser of pages does not see what is wrong with {text!r}")
    for text in bad_pictures:
        if not faults_of_picture(text):
            fail(f"the parser of pictures does not see what is wrong with {text!r}")
    with tempfile.TemporaryDirectory() as place:
        study = pathlib.Path(place) / "delay"
        study.mkdir()
        (study / "time.svg").write_bytes(b"<svg \xff\0")
        check = subprocess.run([ROOT / "deploy/studies/check", "delay", "--no-run", "--out", place],
                               capture_output=True, text=True, check=False)
        if check.returncode != 2 or not re.fullmatch("delay: .*time.svg is no picture: .*\n", check.stderr):
            fail(f"deploy/studies/check does not name a bad picture: {check.stderr}")


# What a reader cannot like, as a list of words.
LOOK = """(() => {
  const faults = [];
  for (const closed of document.querySelectorAll('details')) closed.open = true;
  const root = document.scrollingElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`is ${root.scrollWidth} wide`);
  if (!document.querySelector('h1').textContent.trim()) faults.push('has no headline');
  const shown = (node) => node.getClientRects().length > 0;
  for (const table of document.querySelectorAll('table'))
    if (shown(table) && table.rows.length < 2 && !report.live) faults.push(`table ${table.id} is empty`);
  for (const canvas of document.querySelectorAll('canvas[id]'))
    if (shown(canvas) && !Chart.getChart(canvas)) faults.push(`chart ${canvas.id} is empty`);
  for (const box of document.querySelectorAll('.scroll'))
    if (shown(box) && box.scrollWidth > box.clientWidth + 1 && !box.classList.contains('overflows'))
      faults.push(`${box.getAttribute('aria-label')}: hides columns and does not say so`);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  if (document.documentElement.classList.contains('dark') !== dark) faults.push('has the other theme');
  return JSON.stringify({state: document.readyState, faults});
})()"""


def look(pages):
    found = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        chromium = browser.Browser(place)
        try:
            for page in pages:
                for width, dark in ((1400, False), (420, True)):
                    chromium.errors.clear()
                    chromium.open(page.as_uri(), width, dark)
                    # Observers of the layout speak after the first drawing.
                    try_again = time.monotonic() + 5
                    while True:
                        seen = chromium.wait_until("its end", LOOK, lambda s: s["state"] == "complete")
                        if not seen["faults"] or time.monotonic() > try_again:
                            break
                    # A page that was live finds its command gone.
                    errors = [] if page.name.startswith("live-") else chromium.errors
                    for fault in seen["faults"] + [json.dumps(error) for error in errors]:
                        print(f"{page}, {width} pixels: {fault}", file=sys.stderr)
                        found += 1
        finally:
            chromium.end()
    return found


def main():
    words = sys.argv[1:]
    if words and words[0] == "--parse":
        sys.exit(1 if parse(words[1:]) else 0)
    with_browser = browser.is_here() and "--no-browser" not in words
    words = [word for word in words if word != "--no-browser"]
    rubato = pathlib.Path(words[0] if words else ROOT / "build/release/cli/rubato").resolve()
    for name in list(os.environ):
        if name.startswith("OPENBLAS_"):  # these pin kernels
            del os.environ[name]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        sees_faults()
        place = pathlib.Path(directory)
        make_everything(rubato, place)
        pages, pictures = sorted(place.rglob("*.html")), sorted(place.rglob("*.svg"))
        if len(pages) < 11 or len(pictures) < 5:
            fail(f"only {len(pages)} pages and {len(pictures)} pictures")
        found = parse(pages + pictures + sorted((ROOT / "docs").rglob("*.svg")))
        if with_browser:
            found += look(pages)
    if found:
        fail(f"{found} faults")
    print(f"{len(pages)} pages and {len(pictures)} pictures are well" +
          (", in a browser, too" if with_browser else "; none was opened in a browser"))


main()
