#!/usr/bin/env python3
"""Runs every command line that README.md, CONTRIBUTING.md, docs/, examples/ and --help print.

    tests/documents.py                  # short: trainings end early; a few minutes on two cores
    tests/documents.py README.md help   # of these documents only; help: the examples of --help
    tests/documents.py --whole          # as printed: trains for hours
    tests/documents.py --list           # each line, and what becomes of it

A document's lines run in the order printed, in a copy of the repository that has `rubato` on its
PATH. Each must end with exit code 0. The tables below say which lines cannot run here and why, and
what stands for addresses, ports and files of the reader. An entry that no line needs is an error,
and so is a line that fails without an entry. Prints how many lines ran, and how many were skipped
and why. Also checked:
- what stands below a command that ends within a minute is what it prints;
- commands and options that documents, error messages and scripts mention exist;
- what error messages advise works;
- links between documents lead somewhere.
Exit code: 0 all is well, 1 something is not.
"""
import argparse
import collections
import glob
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))

# Line: where it stands, and its text; `section` is the heading above it.
# `printed` is the output that the document shows below it.
Line = collections.namedtuple("Line", "document number section text printed", defaults=("",))

# --- The tables ----------------------------------------------------------------------------------

# Words with which a printed command begins. Anything else in an indented block is output.
PROGRAMS = set("""apt apt-get cat cd chmod cmake cp ctest debootstrap docker docker-compose echo
    export git journalctl kubectl mkdir nft python3 rm rubato runuser scp sed ssh sudo systemctl tar
    TIMEFORMAT""".split())
OWN = re.compile(r"(\./)?(bench|build|deploy|examples|tests)/\S+$")

# Lines that do not run here: document, section, line (each an expression), and why.
SKIPPED = [
    (r"", r"", r"^docker|\| docker |^debootstrap|bookworm-security",
     "needs Docker: tests/containers.sh, tests/packages/image.sh"),
    (r"", r"", r"^kubectl|\| kubectl ", "needs a Kubernetes cluster: tests/kubernetes_objects.py"),
    (r"operations|help", r"", r"^rubato boxes (start|status|fetch)",
     "needs boxes: tests/packages/remote.sh"),
    (r"operations|help", r"", r"^ *rubato reshard",
     "needs a run that is stopped: tests/integration/reshard_test.cpp"),
    (r"operations", r"From bare boxes", r"",
     "needs three boxes: tests/packages/walk.sh runs the section word for word"),
    (r"operations", r"", r"^apt|^systemctl", "needs root and services: tests/packages/run.sh"),
    (r"operations", r"Upgrade", r"", "needs services of two releases: tests/upgrade.py"),
    (r"containers", r"", r"^apt-get", "needs root"),
    (r"README|python", r"", r"^sudo apt ",
     "needs root and a package: tests/packages/run.sh, tests/packages/page.sh"),
    (r"", r"", r"^\./tests/run\.sh|^tests/packages|^deploy/package\.sh|^\./tests/packages",
     "a test of its own: builds, or makes packages"),
    (r"", r"", r"^(\./)?tests/debian13", "makes a bare system: two hours"),
    (r"testing|CONTRIBUTING", r"", r"^\./tests/(engines|boxes|slurm|study_job|live_page|containers|arm64)|"
     r"^tests/(deaths|fuzz|networks|soak|storm|upgrade)|kubernetes_objects", "a test of its own"),
    (r"", r"", r"^cmake|^ctest|&& cmake|^build/dev/tests|^build/embed/|^build/packed",
     "builds: .ci/run builds and runs all tests"),
    (r"extending", r"", r"--sync bsp,duets", "a sync model that the reader has added"),
    (r"gpu", r"", r"", "needs a GPU, or another machine: docs/gpu.md"),
    (r"", r"", r"(^|[ =])bench/", "measures for minutes, with root: bench/run.sh"),
    (r"", r"", r"^build/(dev/)?bench", "measures for minutes"),
    (r"performance", r"", r"^TIMEFORMAT|^git clone", "measures for minutes; fetches a peer"),
    (r"CONTRIBUTING", r"", r"clang-format", "changes the tree"),
    (r"extending", r"", r"^cc |own\.toml", "builds a program: tests/abi"),
]
if subprocess.run(["python3", "-c", "import torch"], capture_output=True).returncode != 0:
    SKIPPED += [(r"README", r"", r"mlp\.toml", "needs PyTorch: deploy/install.sh python"),
                (r"python", r"", r"", "needs PyTorch: deploy/install.sh python")]
# These as well, unless --whole.
SKIPPED_SHORT = [
    (r"README|python", r"", r"^\./deploy/quickstart\.sh", "builds for six minutes; compares as below"),
    (r"", r"", r"deploy/studies/(tempo|thousand)\.toml", "takes minutes"),
    (r"", r"", r"^rubato choose", "takes minutes: tests/integration/choose_test.cpp"),
    (r"choose|help", r"", r"^rubato up edge-3\.toml", "needs the file of rubato choose"),
    (r"help", r"", r"^rubato whatif deploy/clusters/edge-3\.toml$", "tries every change: minutes"),
    (r"help", r"", r"^rubato bounds", "docs/what-if.md has it"),
    (r"what-if", r"", r"pi-5\.toml", "pi-5.toml comes from a board"),
    (r"help|install|what-if", r"", r"^rubato calibrate .*--save", "measures for a minute or two"),
    (r"help|what-if", r"", r"^rubato plan", "takes minutes: tests/integration/whatif_test.cpp"),
    (r"studies", r"", r"^rubato study deploy/studies +#", "the studies run one by one"),
    (r"studies", r"", r"my-(draw|finals)", "draws clusters, and runs for an hour"),
]

# What stands for what, in both modes: expression, replacement, why. PORT is one that is free.
REPLACED = [
    (r"tcp://(192\.168\.1\.10|10\.0\.0\.[12]|0\.0\.0\.0|127\.0\.0\.1):(5700|5701|5790)",
     r"tcp://127.0.0.1:PORT\2", "addresses of the reader's boxes"),
    (r"--http 10\.0\.0\.1:8080|--http 8080", "--http PORT8080", "the port may be taken"),
    (r"/var/lib/rubato", "state", "only root may write there"),
    (r"keys allow (\S+\.pub)", r"keys allow $RUBATO_KEYS/\1", "nobody carries keys here"),
    (r"edge-3-\d{4}-\d\d-\d\d-1 latest", r"$(cd out && ls -d edge-3-*-1) latest", "the run's own day"),
    (r"^(rubato status .*--watch)", r"timeout -s INT 3 \1; [ $? = 124 ]", "watches until Ctrl-C"),
]
REPLACED_SHORT = [
    (r"--seeds [35]", "--seeds 2", "two seeds show as much"),
    (r"--target-loss 0\.45", "--target-loss 0.8", "that of the shortened files"),
]

# Files in the copy of the repository, unless --whole: path, expression, replacement, why.
FILES_SHORT = [
    (r"deploy/clusters/(edge|paper)-.*\.toml",
     r"(?m)^(step_seconds|latency_seconds|interval_seconds|check_period_seconds) *= *([\d.]+)",
     lambda m: f"{m[1]} = {float(m[2]) / 100:g}", "a hundredth of the time"),
    (r"deploy/clusters/.*\.toml", r"(?m)^target_loss *=.*", "target_loss = 0.8", "an early target"),
    (r"deploy/clusters/.*\.toml", r"(?m)^max_seconds *=.*", "max_seconds = 60", "an early end"),
    (r"deploy/studies/(?!scale)[^/]*\.toml", r"(?m)^seeds *=.*\n|^stop\.(target_loss|max_seconds) *=.*\n", "",
     "one seed, an early target"),
    (r"deploy/studies/(?!scale)[^/]*\.toml", r"(?m)^\[set\]\n|\A(?![\s\S]*^\[set\])([\s\S]*?)(?=^\[)",
     lambda m: (m[1] or "") + "[set]\nstop.target_loss = 1.5\nstop.max_seconds = 300\n", "as above"),
    (r"deploy/studies/(?!scale)[^/]*\.toml", r"\A", "seeds = 1\n", "as above"),
    (r"examples/.*\.toml", r"(?m)^max_seconds *=.*", "max_seconds = 5", "an early end"),
    (r"examples/python/mlp\.toml", r"(?m)^target_loss *=.*\nmax_seconds *=.*",
     "target_loss = 2\nmax_seconds = 60", "an early target"),
]

# Files of the reader: document (an expression), path, content.
SMALL = """[[workers]]
name = "pi-0"
step_seconds = 0.005
[model]
hidden = [8]
[dataset]
kind = "blobs"
samples = 500
[evaluation]
interval_seconds = 0.2
[sync.adsp]
check_period_seconds = 1
[snapshot]
every_seconds = 1
[stop]
max_seconds = 3
"""
PATIENTS = "id,age,sex,diagnosis\n" + "".join(
    f"{i},{20 + 7 * i % 60},{'fm'[i % 2]},{'ill' if i % 3 else 'well'}\n" for i in range(60))


def picture(shade):
    """A grey PNG of 80 x 70 pixels."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = (b"\0" + bytes([shade]) * 80) * 70
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 80, 70, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


GIVEN = [
    (r"emulation|profiling|help", "edge.toml", SMALL),
    (r"operations", "edge.toml", 'join = "open"\n' + SMALL.replace(
        "step_seconds = 0.005", 'step_seconds = 0.005\ndata = "attic.csv"').replace(
            'kind = "blobs"\nsamples = 500', 'kind = "csv"\npartition = "local"')),
    (r"operations", "attic.csv", PATIENTS),
    (r"data\.md", "patients.csv", PATIENTS),
    (r"data\.md", "box-a.csv", PATIENTS),
    (r"data\.md", "box-b.csv", PATIENTS),
    (r"data\.md", "flats.csv", "rooms,rent\n" + "".join(f"{i % 5},{300 + 90 * (i % 5)}\n"
                                                        for i in range(40))),
    (r"data\.md", "photos/cat/1.png", picture(40)),
    (r"data\.md", "photos/dog/1.png", picture(200)),
    (r"help", "mine.csv", lambda copy: read(copy + "/examples/csv/machines.csv")),
    (r"emulation", "spot.json",
     '{"metadata": {"gap_seconds": 600}, "data": [0, 0, 1, 0, 0, 0, 1, 1, 0, 1]}'),
    (r"compression", "edge-3-int8.toml",
     lambda copy: read(copy + "/deploy/clusters/edge-3.toml")
     + '\n[wire]\nup = "int8"\ndown = "int8"\n'),
    (r"containers", "edge-3.toml", lambda copy: read(copy + "/deploy/clusters/edge-3.toml")),
    (r"docs/studies", "my-study.toml",
     lambda copy: read(copy + "/deploy/studies/delay.toml").replace("../clusters",
                                                                    "deploy/clusters")),
    (r"trained", "edge.toml",
     '[[workers]]\nname = "pc"\ncount = 2\nstep_seconds = 0.01\n[dataset]\npath = '
     '"examples/csv/machines.csv"\n[stop]\nmax_seconds = 5\n[sync.adsp]\ncheck_period_seconds = 1\n'
     '[evaluation]\ninterval_seconds = 0.5\n'),
    (r"trained", "new.csv", lambda copy: read(copy + "/examples/csv/new.csv")),
]

# Lines that may end with another exit code, and why.
EXITS = [
    (r"study --merge", 1, "some parts are missing"),
    (r"rubato doctor", 1, "finds what is in the way on this box"),
]

# Lines that another command must run beside.
BESIDE = [
    (r"rubato status --scheduler", "rubato scheduler edge.toml --bind tcp://127.0.0.1:PORT5700"),
    (r"rubato status *(#|$)", "rubato up deploy/clusters/edge-3.toml --quiet"),
    (r"rubato calibrate --server", "rubato calibrate --listen tcp://127.0.0.1:PORT5790"),
]
# Lines that read what the nodes above them write at their end.
AFTER = re.compile(r"rubato trace merge")
# These run until the others of the document have ended, or until they are interrupted.
NODE = re.compile(r"rubato\s+(scheduler|server|worker)\b|rubato calibrate --listen")

# Lines that end with an advice, and the expression of the command that they must advise. It runs.
ADVISING = [
    ("rubato keygen pi-7 --role worker --keys k", r"rubato keys allow pi-7\.pub"),
    ("rubato worker edge.toml --scheduler tcp://192.0.2.1:5700 --name pi-0 --keys k2",
     r"rubato keygen pi-0 --role worker[^;`\n]*"),
    ("rubato keys revoke nobody", r"rubato keys list"),
    ("rubato report nowhere", r"rubato runs"),
    ("rubato evaluate nowhere --data mine.csv", r"rubato runs"),
    ("rubato comprae edge.toml", r"rubato --help"),
    ("rubato compare", r"rubato compare --help"),
    ("rubato keygen", r"rubato keygen --help"),
    ("rubato up", r"rubato up --help"),
]

# --- Reading documents ---------------------------------------------------------------------------


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_command(text):
    first = re.sub(r"^([A-Za-z_]+=\S+\s+)+", "", text).split()
    return bool(first) and (first[0].split("=")[0] in PROGRAMS or bool(OWN.match(first[0])))


def printed_below(lines, number):
    """What the rest of an indented block shows, up to its next command."""
    printed = []
    while number < len(lines) and (not lines[number] or lines[number].startswith("    ")):
        row = lines[number][4:]
        if is_command(row):
            break
        printed.append(row)
        number += 1
    return "\n".join(printed).strip()


def printed_lines(document, text):
    """The commands of the indented blocks; a line goes on after a backslash, and up to the end of a
    here-document."""
    lines = text.split("\n")
    section, fenced, inside, before = "", False, False, ""
    number = 0
    while number < len(lines):
        line = lines[number]
        start = number + 1
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("#"):
            section = line.strip("# ")
        elif not fenced and line.startswith("    ") and (
                inside or before == "" or before.startswith("<!--")):
            inside = True
            command = line[4:]
            while command.endswith("\\"):
                number += 1
                command += "\n" + lines[number][4:]
            heredoc = re.search(r"<<'?(\w+)'?", command)
            if heredoc and is_command(command):
                while lines[number].strip() != heredoc[1]:
                    number += 1
                    command += "\n" + lines[number][4:]
            if is_command(command):
                printed = printed_below(lines, number + 1)
                yield Line(document, start, section, command, printed)
        elif line:
            inside = False
        before = lines[number].strip()
        number += 1


def documents():
    """Name and text of each document, in the order in which they run."""
    names = ["README.md", "CONTRIBUTING.md"]
    names += sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True))
    names += sorted(glob.glob("examples/**/README*", root_dir=ROOT, recursive=True))
    return [(name, read(os.path.join(ROOT, name))) for name in names]


DURATION = re.compile(r"(?:(\d+) h )?(?:(\d+) min )?(\d+(?:\.\d+)?) (s|min)\b")
# Other kinds of processors round otherwise, which may move a time by an evaluation.
TOLERANCE = 0.08


def figures_of(row):
    """Words and numbers of a row; a duration is one number."""
    def seconds(m):
        last = float(m[3]) * (60 if m[4] == "min" else 1)
        return f"{3600 * int(m[1] or 0) + 60 * int(m[2] or 0) + last:g} s"
    figures = []
    for word in DURATION.sub(seconds, row).split():
        try:
            figures.append(float(word.strip(",").replace(",", "")))
        except ValueError:
            figures.append(word)
    return figures


def same_figures(one, other):
    def same(a, b):
        if isinstance(a, str) or isinstance(b, str):
            return a == b
        return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))
    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other))


def not_printed(shown, output):
    """Rows of a document that the output does not have."""
    rows = [figures_of(row) for row in output.split("\n")]
    return [row for row in shown.split("\n") if row.strip() and row.strip() != "..."
            and not any(same_figures(figures_of(row), each) for each in rows)]


class Help:
    """What --help says of each command."""

    def __init__(self, rubato):
        self.texts = {}
        self.ask(rubato, [])

    def ask(self, rubato, words):
        # From the root, so that examples have the paths of a clone.
        text = subprocess.run([rubato, *words, "--help"], capture_output=True, text=True,
                              check=True).stdout
        self.texts[" ".join(words)] = text
        listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE)
        for name in re.findall(r"^  ([a-z-]+) ", listed[1] if listed else "", re.MULTILINE):
            self.ask(rubato, words + [name])

    def options(self, command):
        return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", self.texts[command], re.MULTILINE))

    def lines(self):
        for command, text in self.texts.items():
            examples = text.split("\nExamples:\n", 1)
            if len(examples) == 2:
                body = examples[1].split("\nExit codes:")[0]
                block = "\n".join(("  " + row if row.startswith("  ") else row)
                                  for row in body.split("\n"))
                # Explanations are indented further than commands.
                block = re.sub(r"(?m)^ {8}(?!--)\S.*$", "", block)
                for line in printed_lines("help", "\n" + block):
                    if "COMMAND" not in line.text:
                        yield line._replace(section=("rubato " + command).strip())


# --- Running -------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Runner:
    def __init__(self, options):
        self.options = options
        self.short = not options.whole  # what takes minutes is left out
        self.place = tempfile.mkdtemp(prefix="rubato-documents-")
        self.base = os.path.join(self.place, "base")
        self.used = set()  # entries of the tables
        self.ran = collections.Counter()
        self.skipped = collections.Counter()
        self.failures = []
        self.compared = 0  # commands whose output a document shows
        self.ports = {}
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("RUBATO_", "OPENBLAS_"))}
        self.environment["HOME"] = os.path.join(self.place, "home")
        # So that `rubato status` finds the runs of this test, and no others.
        self.environment["XDG_RUNTIME_DIR"] = self.environment["HOME"]
        os.mkdir(self.environment["HOME"])
        self.copy_tree()

    def copy_tree(self):
        """The repository, without what git ignores, and the command where the quick start builds it."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                                capture_output=True, text=True, check=True).stdout.split("\0")
        for name in filter(None, listed):
            source, target = os.path.join(ROOT, name), os.path.join(self.base, name)
            if not os.path.isfile(source):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
            if not self.options.whole:
                self.shorten(name, target)

    def shorten(self, name, target):
        text = None
        for path, expression, replacement, _ in FILES_SHORT:
            if re.fullmatch(path, name):
                text = text if text is not None else read(target)
                text, count = re.subn(expression, replacement, text, count=0 if "A" not in
                                      expression else 1)
                if count:
                    self.used.add((path, expression))
        if text is not None:
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)

    def copy_for(self, document):
        copy = os.path.join(self.place, re.sub(r"\W+", "-", document))
        shutil.copytree(self.base, copy, symlinks=True)
        for preset in ("release", "dev"):
            directory = os.path.join(copy, "build", preset, "cli")
            os.makedirs(directory)
            try:
                os.link(self.options.rubato, os.path.join(directory, "rubato"))
            except OSError:
                shutil.copy2(self.options.rubato, directory)
            # The library of own training loops, if it is built.
            library = os.path.join(os.path.dirname(self.options.rubato), "../abi/librubato.so")
            if os.path.exists(library):
                os.mkdir(os.path.join(copy, "build", preset, "abi"))
                shutil.copy(library, os.path.join(copy, "build", preset, "abi"))
        for expression, path, content in GIVEN:
            if re.search(expression, document):
                target = os.path.join(copy, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                content = content(copy) if callable(content) else content
                with open(target, "wb") as file:
                    file.write(content if isinstance(content, bytes) else content.encode())
        return copy

    def reason_to_skip(self, line):
        table = SKIPPED + (SKIPPED_SHORT if self.short else [])
        for entry in table:
            if all(re.search(expression, part) for expression, part in
                   zip(entry, (line.document, line.section, line.text))):
                self.used.add(entry[:3])
                return entry[3]
        return None

    def replaced(self, text):
        for expression, replacement, _ in REPLACED + ([] if self.options.whole else REPLACED_SHORT):
            text, count = re.subn(expression, replacement, text)
            if count:
                self.used.add(expression)
        return re.sub(r"PORT(\d+)", lambda m: str(self.ports[m[1]]), text)

    def run_document(self, document, lines):
        lines = list(lines)
        self.ports = {name: free_port() for name in ("5700", "5701", "5790", "8080")}
        session = None
        for line in lines:
            reason = self.reason_to_skip(line)
            if self.options.list:
                print(f"{line.document}:{line.number}: {reason or 'runs'}: {line.text!r}")
            if reason:
                self.skipped[reason] += 1
                continue
            self.ran[document] += 1
            if self.options.list:
                self.replaced(line.text)
                continue
            session = session or Session(self.copy_for(document), self)
            # The boxes of one cluster stand in one section.
            if session.section != line.section:
                session.end_nodes()
                session.section = line.section
            session.run(line)
        if session:
            session.end_nodes()
            if not self.options.keep:
                shutil.rmtree(session.copy)
        if lines and not self.options.list:
            print(f"{document}: {self.ran[document]} of {len(lines)} lines ran", flush=True)

    def compare_figures(self, sources):
        """Lines below which output is shown, and those before them, in a tree that is not shortened."""
        for document, lines in sources:
            shown = [line for line in lines if line.printed and not self.reason_to_skip(line)]
            if not shown:
                continue
            session = Session(self.copy_for(document), self)
            for line in lines[:lines.index(shown[-1]) + 1]:
                if self.reason_to_skip(line) or NODE.match(line.text):
                    continue
                code, output = session.output_of(line.text, 60)
                if line not in shown:
                    continue
                if code is None:
                    self.skipped["its figures take longer than a minute"] += 1
                    continue
                self.compared += 1
                for row in not_printed(line.printed, output):
                    self.fail(line, f"does not print {row!r}", output)
            shutil.rmtree(session.copy)

    def fail(self, line, what, output=""):
        text = f"{line.document}:{line.number}: {what}\n    {line.text}\n"
        text += "".join(f"    | {row}\n" for row in output.strip().split("\n")[-15:] if row)
        self.failures.append(text)
        print(text, end="", flush=True)

    def advice(self, session):
        for command, expression in ADVISING:
            line = Line("messages", 0, "", command)
            output = session.output_of(self.replaced(command))[1]
            found = re.search(expression, output)
            if not found:
                self.fail(line, f"does not advise {expression!r}", output)
                continue
            advised = found[0]
            if "keys allow" in advised:  # in the directory where the key lies
                advised = advised.replace("pi-7.pub", "k/pi-7.pub --keys k")
            code, said = session.output_of(advised)
            self.ran["messages"] += 1
            if code != 0:
                self.fail(line, f"advises {advised!r}, which ends with exit code {code}", said)


class Session:
    """A shell in one copy of the repository: directory and variables last from line to line."""

    def __init__(self, copy, runner):
        self.copy = copy
        self.runner = runner
        self.section = ""
        self.state = copy + ".state"
        self.nodes = []  # (line, process, log)
        with open(self.state, "w", encoding="utf-8") as file:
            file.write(f"cd {copy}\nexport PATH={copy}/build/release/cli:$PATH\n"
                       f"export RUBATO_KEYS={copy}/keys\n")

    def script(self, text):
        return (f". {self.state}\n{text}\ncode=$?\n"
                f"{{ export -p; echo cd \"'$PWD'\"; }} >{self.state}.new\n"
                f"mv {self.state}.new {self.state}\nexit $code\n")

    def output_of(self, text, limit=None):
        limit = limit or (6 * 3600 if self.runner.options.whole else 240)
        process = subprocess.Popen(["bash", "-c", self.script(text)], cwd=self.copy, text=True,
                                   env=self.runner.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]

    def start(self, line, text):
        log = open(f"{self.copy}.log{len(self.nodes)}", "w+", encoding="utf-8")
        # `exec`, so that an interrupt reaches the node itself.
        process = subprocess.Popen(["bash", "-c", f". {self.state}\nexec {text}"], cwd=self.copy,
                                   env=self.runner.environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.nodes.append((line, process, log))

    def run(self, line):
        text = self.runner.replaced(line.text)
        if NODE.match(text):
            self.start(line, text)
            return
        if AFTER.match(text):
            self.end_nodes()
        beside = [command for expression, command in BESIDE if re.search(expression, text)]
        for expression, command in BESIDE:
            if re.search(expression, text):
                self.runner.used.add(expression)
        listening = any(NODE.match(node[0].text) for node in self.nodes)
        for command in beside if not listening else []:
            self.start(Line("beside", 0, "", command), self.runner.replaced(command))
        began = time.monotonic()
        code, output = self.output_of(text)
        while beside and code != 0 and time.monotonic() < began + 20:
            time.sleep(0.3)
            code, output = self.output_of(text)
        seconds = time.monotonic() - began
        if self.runner.options.times:
            print(f"  {seconds:6.1f} s  {line.text.splitlines()[0]}", flush=True)
        expected = {0}
        for expression, exit_code, _ in EXITS:
            if re.search(expression, text):
                expected.add(exit_code)
                if code == exit_code:
                    self.runner.used.add(expression)
        if code is None:
            self.runner.fail(line, f"had not ended after {seconds:.0f} s", output)
        elif code not in expected:
            self.runner.fail(line, f"ended with exit code {code}", output)
        if beside:
            self.end_nodes()

    def end_nodes(self):
        """A cluster with all three roles trains to its end. Other nodes must live until they are
        interrupted, or have ended well."""
        roles = {m[1] for line, _, _ in self.nodes if (m := NODE.match(line.text))}
        whole = {"scheduler", "server", "worker"} <= roles
        if self.nodes and not whole:
            time.sleep(1.5)
        for line, process, log in self.nodes:
            try:
                process.wait(timeout=60 if whole else 0.01)
                code = process.returncode
            except subprocess.TimeoutExpired:
                code = None
            if code is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            log.seek(0)
            if whole and code != 0 or code not in (None, 0) and line.document != "beside":
                self.runner.fail(line, f"ended with exit code {code}", log.read())
            log.close()
        self.nodes = []


# --- What is mentioned ---------------------------------------------------------------------------


def check_mentions(helps, failures):
    """`rubato COMMAND --option` in a text: the command and the option exist."""
    count = 0
    sources = [(name, text, r"`(rubato [^`]+)`") for name, text in documents()]
    folders = ("base", "train", "sync", "proto", "scheduler", "server", "worker", "cluster", "emulation",
               "nodes", "report", "cli")
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/**/*.cpp", root_dir=ROOT, recursive=True)):
            # Adjacent literals are one.
            text = re.sub(r'"\s*\n\s*"', "", read(os.path.join(ROOT, path)))
            sources.append((path, text, r'"([^"\n]*rubato [^"\n]*)"'))
    for path in ("deploy/quickstart.sh", "deploy/install.sh", "deploy/package.sh"):
        sources.append((path, read(os.path.join(ROOT, path)), r"(rubato [^\n]*)"))
    for name, text, expression in sources:
        for quoted in re.findall(expression, text):
            for mention in re.finditer(r"rubato ([a-z][a-z-]*(?: [a-z]+(?=[ `]|$))?)"
                                       r"((?: [^\s;,:`()]+)*)", quoted):
                command = mention[1] if mention[1] in helps.texts else mention[1].split(" ")[0]
                options = re.findall(r"(?<!\S)(--[a-z][a-z-]*)", mention[2])
                if command not in helps.texts:
                    # Prose such as "rubato does not read".
                    if name.endswith(".md") and quoted == mention[0]:
                        failures.append(f"{name}: `{quoted}`: there is no command {command}\n")
                    continue
                count += 1
                for option in options:
                    if option not in helps.options(command) | {"--help", "--version"}:
                        failures.append(f"{name}: {mention[0]!r}: rubato {command} has no {option}\n")
    return count


def anchor_of(heading):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip("# ")).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def check_links(failures):
    count = 0
    texts = dict(documents())
    for name, text in texts.items():
        plain = re.sub(r"(?ms)^```.*?^```$", "", text)
        for target in re.findall(r"\]\(([^)\s]+)\)", plain):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            count += 1
            if not os.path.exists(os.path.join(ROOT, path)):
                failures.append(f"{name}: link to {target}: there is no {path}\n")
            elif anchor and path in texts and anchor not in {
                    anchor_of(line) for line in texts[path].split("\n") if line.startswith("#")}:
                failures.append(f"{name}: link to {target}: {path} has no such heading\n")
    return count


def stale_entries(used, whole):
    """Entries of the tables that nothing needs any more."""
    entries = [("SKIPPED", entry[:3]) for entry in SKIPPED]
    entries += [("REPLACED", entry[0]) for entry in REPLACED]
    entries += [("BESIDE", entry[0]) for entry in BESIDE]
    if not whole:
        entries += [("SKIPPED_SHORT", entry[:3]) for entry in SKIPPED_SHORT]
        entries += [("REPLACED_SHORT", entry[0]) for entry in REPLACED_SHORT]
        entries += [("FILES_SHORT", entry[:2]) for entry in FILES_SHORT]
    return [f"{table}: no line needs the entry {entry!r}; remove it\n"
            for table, entry in entries if entry not in used]


def main():
    # A caller that works in the background may ignore it, and so would all nodes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", metavar="DOCUMENT")
    parser.add_argument("--rubato", default=os.path.join(ROOT, "build/dev/cli/rubato"),
                        help="default: build/dev/cli/rubato")
    parser.add_argument("--whole", action="store_true", help="as printed; hours")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--times", action="store_true", help="print how long each line takes")
    parser.add_argument("--keep", action="store_true", help="keep the copies")
    options = parser.parse_args()
    options.rubato = os.path.abspath(options.rubato)
    if not os.access(options.rubato, os.X_OK):
        parser.error(f"{options.rubato} is missing; build it, or name another with --rubato")
    began = time.monotonic()
    runner = Runner(options)
    try:
        # Asked in a copy, so that examples name its files.
        asked = runner.copy_for("help")
        os.chdir(asked)
        helps = Help(os.path.join(asked, "build/release/cli/rubato"))
        help_lines = list(helps.lines())
        os.chdir(ROOT)
        shutil.rmtree(asked)
        sources = [(name, list(printed_lines(name, text))) for name, text in documents()]
        sources.append(("help", help_lines))
        for name, lines in sources:
            if not options.documents or any(name.endswith(wanted) for wanted in options.documents):
                runner.run_document(name, lines)
        if not options.list and not options.whole:
            wanted = [each for each in sources if not options.documents or
                      any(each[0].endswith(name) for name in options.documents)]
            as_printed = Runner(argparse.Namespace(**{**vars(options), "whole": True}))
            as_printed.short = True
            as_printed.compare_figures(wanted)
            shutil.rmtree(as_printed.place, ignore_errors=True)
            runner.failures += as_printed.failures
            runner.skipped += as_printed.skipped
            print(f"{as_printed.compared} commands print what their documents show below them")
        if not options.list and not options.documents:
            session = Session(runner.copy_for("help-messages"), runner)
            runner.advice(session)
        mentions = check_mentions(helps, runner.failures)
        links = check_links(runner.failures)
        if not options.documents:
            lines_used = runner.used if not options.list else runner.used | {e[0] for e in BESIDE}
            runner.failures += stale_entries(lines_used, options.whole)
    finally:
        if options.keep:
            print(f"copies: {runner.place}")
        else:
            shutil.rmtree(runner.place, ignore_errors=True)
    for failure in runner.failures:
        if not failure.split("\n")[0].endswith("exit code") and "\n    " not in failure:
            print(failure, end="")
    for reason, count in sorted(runner.skipped.items(), key=lambda item: -item[1]):
        print(f"skipped {count:3}: {reason}")
    print(f"{sum(runner.ran.values())} lines ran, {sum(runner.skipped.values())} skipped; "
          f"{mentions} mentions of commands and {links} links looked at; "
          f"{len(runner.failures)} faults; {time.monotonic() - began:.0f} s")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
