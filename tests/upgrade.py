#!/usr/bin/env python3
"""Runs two builds of rubato beside each other: what one leaves, the other reads, or refuses.

Usage: tests/upgrade.py [OLD NEW] [--only models,states,...] [--durability journal] [--keep DIR]
Without builds it takes 0.2.0, which it builds once in build/upgrade, and the newest one of
build/dev and build/release.

  models    model files of OLD: NEW says the same of them
  states    runs of OLD that were killed: NEW goes on with them. Runs of NEW: OLD goes on with them,
            or refuses them and changes nothing
  keys      keys of OLD, in an encrypted run of both
  files     cluster files of OLD, read by NEW
  mixed     nodes of both in one run
  versions  nodes that speak another version of the protocol: a relay changes its number
  rolling   a run of OLD whose nodes are stopped, one after the other, and started as NEW

All of it is on loopback. It prints a line for each thing that holds.
Exit code: 0 all does; 1 a line says what does not, and where the logs are; 2 for bad input.
"""
import argparse
import hashlib
import io
import json
import os
import pathlib
import random
import re
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile

from cut_proxy import Frames, History, Proxy, Way, pass_on
from storm import (LIFE, ROOT, Node, Ports, begin, clock, die_with_parent, number_of, prepare_child,
                   read_log)

RELEASE = "acd9248e"             # 0.2.0
PATIENCE = 60                    # s, for each thing that is waited for
LOOK_SECONDS = 0.05
VERSION = 9                      # of the protocol, of both
VERSION_AT = 4                   # of a control frame, behind "RBTO"
FRAME_PREFIX = 16                # bytes of a control frame before its FlatBuffer
STOPPED = (0, 130, 143)          # exit codes of a node that is told to stop
TARGET = 0.3
WORKERS = ["w0", "w1", "w2"]
SELECTOR, PORTS = selectors.DefaultSelector(), Ports()


class Failed(Exception):
    """One line: what does not hold."""


def expect(holds, words):
    if not holds:
        raise Failed(words)


def wait_until(condition, words, seconds=PATIENCE):
    """Returns: what the condition says when it is true. Meanwhile proxies pass on."""
    give_up_at = clock() + seconds
    while not (found := condition()):
        expect(clock() < give_up_at, f"not within {seconds} s: {words}")
        until = clock() + LOOK_SECONDS
        while (left := until - clock()) > 0:
            pass_on(SELECTOR, left)
    return found


def run(build, *words, **more):
    """A command that ends by itself, while proxies pass on. Returns: exit code, output, errors."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen([build, *map(str, words)], stdout=out, stderr=err,
                              preexec_fn=die_with_parent, **more) as process:
            wait_until(lambda: process.poll() is not None, f"rubato {words[0]} ends")
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return process.returncode, *texts


def ask(build, *words):
    """Returns: its output. It must not fail."""
    code, out, err = run(build, *words)
    expect(code == 0, f"rubato {' '.join(map(str, words))}: exit code {code}: "
           f"{err.strip()[-300:]}")
    return out


def unpack_release(place, *paths):
    archive = subprocess.run(["git", "-C", ROOT, "archive", RELEASE, *paths], capture_output=True,
                             check=False)
    expect(archive.returncode == 0, f"git archive {RELEASE}: {archive.stderr.decode().strip()}; a "
           "shallow clone lacks it: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(place)


def built_release():
    source = ROOT / "build" / "upgrade" / RELEASE
    if not source.exists():
        beside = source.with_suffix(".new")
        shutil.rmtree(beside, ignore_errors=True)
        unpack_release(beside)
        beside.rename(source)
    program = source / "build" / "dev" / "cli" / "rubato"
    if not program.exists():
        for words in (["--preset", "dev", "-DRUBATO_TESTS=OFF"],
                      ["--build", "--preset", "dev", "--target", "rubato"]):
            done = subprocess.run(["cmake", *words], cwd=source, stdout=sys.stderr, check=False)
            expect(done.returncode == 0, f"cmake {' '.join(words)} in {source} failed")
    return program


def newest_build():
    builds = [path for preset in ("dev", "release")
              if (path := ROOT / "build" / preset / "cli" / "rubato").exists()]
    expect(builds, "no rubato in build/dev or build/release: build one, or name OLD and NEW")
    return max(builds, key=lambda path: path.stat().st_mtime)


def cluster_text(durability, *, workers=3, servers=2, rate=0.002, more="",
                 stop="max_seconds = 900"):
    rows = "".join(f'[[workers]]\nname = "w{i}"\nstep_seconds = {0.02 * (i + 1):.2f}\n'
                   for i in range(workers))
    return f"""name = "upgrade"
durability = "{durability}"
workers_min = 1
{rows}[servers]
count = {servers}
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
spread = 0.5
samples = 2000
features = 10
classes = 4
[training]
batch = 16
learning_rate = {rate}
[sync.adsp]
check_period_seconds = 1
[evaluation]
interval_seconds = 0.3
[snapshot]
every_seconds = 2
[stop]
{stop}
{more}"""


class Cluster:
    """Nodes of a run, each with a build of its own."""

    def __init__(self, place, text, shared_memory=True):
        self.place = place
        place.mkdir(parents=True)
        self.file = place / "cluster.toml"
        self.file.write_text(text)
        self.nodes = {}
        self.prepare = die_with_parent if shared_memory else prepare_child
        self.endpoint = f"tcp://127.0.0.1:{PORTS.take()}"

    def start(self, name, build, *more, scheduler=None):
        """The first part of the name is the role. scheduler: its endpoint as this node sees it."""
        role = "worker" if name.startswith("w") else name.split("-")[0]
        words = [build, role, str(self.file), "--sync", "adsp", *more]
        if role == "scheduler":
            words += ["--bind", self.endpoint, "--out", str(self.place / "out")]
        else:
            words += ["--scheduler", scheduler or self.endpoint, "--name", name]
        if role == "server":
            words += ["--bind", f"tcp://127.0.0.1:{PORTS.take()}"]
        if role == "worker":
            words += ["--stretch"]
        node = self.nodes[name] = Node(self.place, name, words, self.prepare)
        node.start()
        return node

    def start_all(self, builds, more=lambda name: []):
        for name, build in builds.items():
            self.start(name, build, *more(name))

    def status(self, build):
        return json.loads(ask(build, "status", "--json", "--scheduler", self.endpoint))

    def expect_alive(self):
        for name, node in self.nodes.items():
            expect(node.running(), f"{name} has ended: {last_line(node)}")

    def wait_for_commits(self, build, names):
        """Each of these workers trains, and commits."""
        seen, commit = {}, set()

        def all_commit():
            self.expect_alive()
            for worker in self.status(build)["workers"]:
                if worker["state"] != "trains":
                    continue
                name, commits = worker["name"], worker["commits"]
                if commits > seen.get(name, commits):
                    commit.add(name)
                seen[name] = commits
            return commit >= set(names)
        wait_until(all_commit, f"commits of {', '.join(names)}")

    def stop(self, names):
        for name in names:
            self.nodes[name].process.terminate()
        for name in names:
            node = self.nodes[name]
            code = wait_until(lambda: ended(node), f"{name} ends after SIGTERM")[0]
            expect(code in STOPPED, f"{name}, told to stop: exit code {code}: {last_line(node)}")

    def start_again(self, name, build, *more):
        node = self.nodes[name]
        node.words = [build, *node.words[1:], *more]
        node.start()

    def wait_for_end(self):
        """All nodes that are left. Returns: the run of results.json."""
        for name, node in self.nodes.items():
            code = wait_until(lambda: ended(node), f"{name} ends with the run")[0]
            expect(code == 0, f"{name}: exit code {code}: {last_line(node)}")
        return results_of(self.place / "out")

    def kill(self):
        for node in self.nodes.values():
            node.kill()
            node.process.wait()


def ended(node):
    """Nothing while it runs, else its exit code in a tuple."""
    code = node.process.poll()
    return None if code is None else (code,)


def last_life(node):
    return read_log(node).rsplit(LIFE, 1)[-1]


def last_line(node):
    return last_life(node).strip().splitlines()[-1]


def lost(text):
    """What the scheduler has called lost, each time that a server came back."""
    return [number_of(each) for each in re.findall(r"is back .*: ([\d,]+) commits? lost", text)]


def results_of(out):
    run = json.loads((out / "results.json").read_text())["runs"][0]
    counted = sum(worker["commits"] for worker in run["workers"])
    expect(counted == run["commits"], f"{out}: {counted} commits of workers, {run['commits']} of "
           "the run")
    return run


def expect_target(run):
    expect(run["time_to_target_s"] is not None, "the run has not reached its target: "
           f"{run['stop_reason']}, loss {run['final_loss']}")


# --- models ---------------------------------------------------------------------------------------

def table(rows, chance, missing):
    """Numbers, texts and gaps; a class and a number that follow from them."""
    lines = ["size,weight,colour,kind,price"]
    for _ in range(rows):
        size, weight = chance.uniform(0, 10), chance.uniform(0, 5)
        colour = chance.choice(["red", "green", "blue"])
        price = 3 * size - weight + (7 if colour == "red" else 0) + chance.gauss(0, 0.3)
        kind = "small" if size < 4 else "dear" if price > 20 else "usual"
        told = "" if missing and chance.random() < 0.1 else f"{weight:.3f}"
        lines.append(f"{size:.3f},{told},{colour},{kind},{price:.3f}")
    return "\n".join(lines) + "\n"


def idx(numbers, *shape):
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + bytes(numbers)


def images(place, count, chance):
    """A bright square in one corner of four, as IDX files."""
    pixels, labels = [], []
    for _ in range(count):
        label = chance.randrange(4)
        at_row, at_column = 6 * (label // 2) + 1, 6 * (label % 2) + 1
        labels.append(label)
        pixels += [chance.randrange(90) + (150 if at_row <= row < at_row + 5
                                           and at_column <= column < at_column + 5 else 0)
                   for row in range(12) for column in range(12)]
    place.mkdir()
    for part in ("train", "t10k"):
        (place / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels, count, 12, 12))
        (place / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels, count))


def model_cluster(model, data):
    return f"""name = "models"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
[model]
{model}
[dataset]
{data}
[training]
batch = 16
learning_rate = 0.02
[evaluation]
interval_seconds = 2
[stop]
max_seconds = 10
"""


def expect_alike(ours, theirs, what):
    """The same words, and the same numbers but for their last digits: the builds may have other
    compilers' options."""
    number = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
    expect(number.sub("#", ours) == number.sub("#", theirs), f"{what}: other words")
    for a, b in zip(map(float, number.findall(ours)), map(float, number.findall(theirs))):
        expect(abs(a - b) <= 1e-5 * max(1, abs(a)), f"{what}: {a} and {b}")


def check_models(place, old, new, _):
    chance = random.Random(58)
    (place / "train.csv").write_text(table(400, chance, True))
    (place / "ask.csv").write_text(table(100, chance, True))
    images(place / "images", 200, chance)
    kinds = {
        "classes": ('kind = "mlp"\nhidden = [8]',
                    'kind = "csv"\npath = "train.csv"\nlabel_column = "kind"\nignore = ["price"]',
                    "ask.csv"),
        "regression": ('kind = "mlp"\nhidden = [8]', 'kind = "csv"\npath = "train.csv"\n'
                       'label_column = "price"\ntask = "regression"\nignore = ["kind"]', "ask.csv"),
        "images": ('kind = "cnn"', 'kind = "idx"\npath = "images"', "images"),
    }
    for name, (model, data, asked) in kinds.items():
        file = place / f"{name}.toml"
        file.write_text(model_cluster(model, data))
        saved = {}
        for title, build in (("old", old), ("new", new)):
            out = place / f"{name}-{title}"
            ask(build, "compare", file, "--sync", "bsp", "--save", "--quiet", "--out", out)
            saved[title] = out / "bsp-1" / "best.safetensors"
        for title, model_file in saved.items():
            for words in (["predict", model_file], ["evaluate", model_file, "--json"]):
                said = [ask(build, *words, "--data", place / asked) for build in (old, new)]
                expect_alike(*said, f"{words[0]} of the {title} model of {name}")
        # One goes on training from it.
        file.write_text(model_cluster(f'start = "{saved["old"]}"\n{model}', data))
        ask(new, "compare", file, "--sync", "bsp", "--quiet", "--out", place / f"{name}-on")
        yield f"{name}: both builds say the same of a model of either; the new one trains on"
    for model_file in (place / "classes-old" / "bsp-1" / "model.onnx", place / "train.csv"):
        was, now = [run(build, "predict", model_file, "--data", place / "ask.csv")
                    for build in (old, new)]
        expect(was == now and now[0] == 2, f"predict {model_file.name}: {was}, {now}")
    yield "predict of an ONNX file, and of no model: both refuse it in the same line"


# --- states ---------------------------------------------------------------------------------------

def up_of(place, name, build, *words):
    node = Node(place, name, [build, "up", *map(str, words)], die_with_parent)
    node.start()
    return node


def killed_run(place, build, directory, *words):
    """Starts a run, or goes on with it, and kills all of it. Returns: commits that it told."""
    node = up_of(place, directory.name, build, *(words or ["--resume", directory]))
    endpoint = wait_until(lambda: re.search(r"listens on (\S+?),", last_life(node)),
                          f"{directory.name} listens")[1]
    at_start, told = None, 0

    def has_enough():
        nonlocal at_start, told
        expect(node.running(), f"{directory.name} has ended: {last_line(node)}")
        now = json.loads(ask(build, "status", "--json", "--scheduler", endpoint))
        if now["state"] != "training" or len(now["workers"]) < 3:
            return False
        told = now["commits"]
        at_start = told if at_start is None else at_start
        return told > at_start + 60 and all(each["snapshot"] >= 2 for each in now["servers"])
    wait_until(has_enough, f"60 commits and a snapshot of {directory.name}")
    node.kill()
    node.process.wait()
    wait_until(lambda: not is_held(directory), f"all processes of {directory.name} are gone")
    return told


def is_held(directory):
    """A process has a file of the directory open."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(entry).startswith(f"{directory}/")
                   for entry in (process / "fd").iterdir()):
                return True
        except OSError:   # it has ended, or is another user's
            continue
    return False


def contents(directory):
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(directory.rglob("*")) if path.is_file()}


def expect_goes_on(place, build, directory, told, durability):
    node = up_of(place, directory.name, build, "--resume", directory, "--target-loss", TARGET)
    code = wait_until(lambda: ended(node), f"{directory.name} reaches its target")[0]
    expect(code == 0, f"--resume of {directory.name}: exit code {code}: {last_line(node)}")
    result = results_of(directory)
    expect_target(result)
    expect(result["commits"] >= told, f"{directory.name} had told of {told} commits, and ended "
           f"with {result['commits']}")
    back = lost(last_life(node))
    expect(len(back) == 2, f"{directory.name}: {len(back)} of 2 servers are back")
    expect(durability != "journal" or sum(back) == 0, f"{directory.name}: {sum(back)} commits lost")
    return f"{told:,} commits told, {result['commits']:,} at the target, {sum(back)} lost"


def goes_on_or_refuses(place, old, directory, told, durability):
    before = contents(directory)
    code, _, err = run(old, "up", "--resume", directory, "--target-loss", TARGET)
    if code == 0:
        commits = results_of(directory)["commits"]
        expect(commits >= told, f"the old build went on with {directory.name} of {told} commits, "
               f"and ended with {commits}")
        expect(durability != "journal" or sum(lost(err)) == 0, f"{directory.name}: lost")
        return "read"
    lines = [line for line in err.splitlines() if not re.match(r"\S+ info ", line)]
    expect(code == 2 and len(lines) == 1, f"the old build on {directory.name}: exit code "
           f"{code}: {err.strip()[-300:]}")
    expect(contents(directory) == before, f"the old build refuses {directory.name}, and changes it")
    return f"refused: {lines[0].replace(str(place) + '/', '')}"


def check_states(place, old, new, durabilities):
    for durability in durabilities:
        file = place / f"{durability}.toml"
        file.write_text(cluster_text(durability))

        def begin(build, name):
            directory = place / f"{durability}-{name}"
            return directory, killed_run(place, build, directory, file, "--sync", "adsp", "--out",
                                         directory)
        directory, told = begin(old, "old")
        words = expect_goes_on(place, new, directory, told, durability)
        ask(new, "report", directory)
        yield f"{durability}: the new build goes on with a killed run of the old one: {words}"

        directory, _ = begin(old, "both")
        told = killed_run(place, new, directory)
        words = goes_on_or_refuses(place, old, directory, told, durability)
        yield f"{durability}: the old build on such a run, which the new one went on with: {words}"

        directory, told = begin(new, "new")
        words = goes_on_or_refuses(place, old, directory, told, durability)
        yield f"{durability}: the old build on a run of the new one: {words}"
        if words != "read":
            words = expect_goes_on(place, new, directory, told, durability)
            yield f"{durability}: then the new build goes on with it: {words}"

        directory, told = begin(old, "more")
        file.write_text(cluster_text(durability, servers=3))
        shutil.copy(file, directory / "cluster.toml")
        node = up_of(place, directory.name, new, "--resume", directory, "--target-loss", TARGET)
        code = wait_until(lambda: ended(node), f"{directory.name} reaches its target")[0]
        expect(code == 0, f"3 servers for a run of 2: exit code {code}: {last_line(node)}")
        commits = results_of(directory)["commits"]
        expect(commits >= told, f"{directory.name}: {told} commits told, {commits} at the end")
        yield f"{durability}: the new build goes on with a run of the old one, on 3 servers"


# --- keys, files, mixed ---------------------------------------------------------------------------

def check_keys(place, old, new, _):
    cluster = Cluster(place / "run", cluster_text("snapshot", stop=f"target_loss = {TARGET}\n"
                                                  "max_seconds = 300"))
    keys = place / "keys"
    ask(old, "keygen", "--cluster", cluster.file, "--keys", keys)
    said = [ask(build, "keys", "list", "--keys", keys / "scheduler") for build in (old, new)]
    expect(said[0] == said[1] and "server-0" in said[0], f"keys list: {said}")
    again = ask(new, "keygen", "--cluster", cluster.file, "--keys", keys)
    expect(", 0 of them new" in again, f"keygen of the new build on keys of the old one: {again}")
    builds = {"scheduler": new, "server-0": old, "server-1": new, "w0": new, "w1": old, "w2": new}
    cluster.start_all(builds, lambda name: ["--keys", str(keys / name)])
    try:
        expect_target(cluster.wait_for_end())
    finally:
        cluster.kill()
    yield "keys of the old build: both list them, and train together with them"


def check_files(place, old, new, _):
    tree = place / "tree"
    unpack_release(tree, "deploy", "examples", "bench")
    taken, sizes, studies = 0, 0, 0
    for file in sorted(tree.rglob("*.toml")):
        text, name = file.read_text(), str(file.relative_to(tree))
        if re.search("^cluster = ", text, re.MULTILINE):
            if name.startswith("examples"):   # it needs the Python package
                continue
            said = []
            for title, build in (("old", old), ("new", new)):
                out = place / f"{title}-{file.stem}"
                # The last of so many parts has no run.
                ask(build, "study", file, "--part", "10000/10000", "--quiet", "--out", out)
                said.append([line for line in (out / "part-10000-of-10000" / "study.json")
                             .read_text().splitlines() if not re.search('"(commit|build)":', line)])
            expect(said[0] == said[1], f"{name}: another study")
            studies += 1
        elif "[[workers]]" in text or "worker_count" in text:
            was, now = run(old, "compose", file), run(new, "compose", file)
            expect(was == now, f"{name}: {was} of the old build, {now} of the new")
            expect(now[0] == 0 or 'model.kind = "timing"' in now[2], f"{name}: {now[2]}")
            taken += now[0] == 0
            sizes += now[0] != 0
    expect(min(taken, sizes, studies) > 0, "no files")
    yield (f"{taken} cluster files of the old build are taken, with the same containers; {sizes} "
           f"have only the size of a model, and the same refusal; {studies} studies are the same")
    # Virtual time: the same run.
    said = []
    for build in (old, new):
        out = place / f"out-{len(said)}"
        ask(build, "compare", tree / "examples/embed/cluster.toml", "--quiet", "--missed-ok",
            "--out", out)
        said.append((out / "curves.csv").read_text())
    expect_alike(*said, "compare examples/embed/cluster.toml")
    yield "compare of one of them: the same curves"


def check_mixed(place, old, new, durabilities):
    for title, first, second in (("old scheduler", old, new), ("new scheduler", new, old)):
        for durability in durabilities:
            cluster = Cluster(place / f"{title}-{durability}".replace(" ", "-"), cluster_text(
                durability, stop=f"target_loss = {TARGET}\nmax_seconds = 300"))
            state = ["--state", str(cluster.place / "state")]
            cluster.start_all({"scheduler": first, "server-0": second, "server-1": second,
                               "w0": second, "w1": second, "w2": second},
                              lambda name: [] if name.startswith("w") else state)
            try:
                expect_target(cluster.wait_for_end())
            finally:
                cluster.kill()
            yield f"{title}, other nodes of the other build, {durability}: target reached"


# --- versions -------------------------------------------------------------------------------------

class Renumbered(Way):
    """Changes the version of control frames by a number, and passes whole frames only."""

    def __init__(self, source, sink, change):
        def on_control(data, at):
            version = at - FRAME_PREFIX + VERSION_AT
            struct.pack_into("<H", data, version,
                             struct.unpack_from("<H", data, version)[0] + change)
        super().__init__(source, sink, Frames(on_control))

    def take(self, data):
        self.pending += self.frames.feed(data)


class Relay(Proxy):
    """Whoever connects seems to speak a version that is higher by a number. The node behind the
    relay seems to them to speak one that is lower by it."""

    def __init__(self, change):
        super().__init__(SELECTOR, History([]), dict)
        self.change = change

    def connect(self, connection):
        if not super().connect(connection):
            return False
        near, far = connection.near, connection.far
        connection.ways = [Renumbered(near, far, self.change), Renumbered(far, near, -self.change)]
        return True


def expect_refused(node, version, scheduler, may_wait):
    """Both say the versions, and the node ends with exit code 2. Returns: the two lines."""
    def line(of, theirs):
        says = f"speaks protocol version {theirs}, this side version {VERSION}"
        return wait_until(lambda: next((line for line in last_life(of).splitlines()
                                        if says in line), None),
                          f"{of.name} says that {theirs} is another version than {VERSION}")
    lines = line(node, 2 * VERSION - version), line(scheduler, version)
    if may_wait:
        node.kill()
    else:
        code = wait_until(lambda: ended(node), f"{node.name} of another version ends")[0]
        expect(code == 2, f"{node.name} of another version: exit code {code}: {last_line(node)}")
    node.process.wait()
    return lines


def check_versions(place, old, new, _):
    for title, first, other, change in (("new", new, old, -1), ("old", old, new, 1)):
        cluster = Cluster(place / title, cluster_text("snapshot", servers=1, workers=2,
                                                      stop=f"target_loss = {TARGET}\n"
                                                      "max_seconds = 300"), shared_memory=False)
        relay, door = Relay(change), PORTS.take()
        relay.listen("scheduler", door, int(cluster.endpoint.rsplit(":", 1)[1]))
        behind = f"tcp://127.0.0.1:{door}"
        said = []
        try:
            scheduler = cluster.start("scheduler", first)
            for name in ("server-0", "w1"):
                stranger = cluster.start(name, other, scheduler=behind)
                # A server of 0.2.0 goes on asking.
                may_wait = name == "server-0" and other == old != new
                said.append(expect_refused(stranger, VERSION + change, scheduler, may_wait))
                del cluster.nodes[name]
                cluster.start("server-0" if name == "server-0" else "w0", first)
            code, _, line = run(other, "status", "--scheduler", behind)
            expect(code == 2 and f"version {VERSION - change}" in line,
                   f"status of another version: exit code {code}: {line.strip()}")
            expect_target(cluster.wait_for_end())
        finally:
            cluster.kill()
        yield (f"a server, a worker and rubato status of version {VERSION + change} at the {title} "
               "scheduler: both sides say so, the others go on")
        for name, lines in zip(("server", "worker"), said):
            yield f"  the {name}: {lines[0]}; the scheduler: {lines[1]}"


# --- rolling --------------------------------------------------------------------------------------

def restart(cluster, name, build, asks):
    """Restarts one node as this build, and waits until the run has it back."""
    scheduler = cluster.nodes["scheduler"]
    before, had = cluster.status(asks)["commits"], len(lost(read_log(scheduler)))
    cluster.stop([name])
    cluster.start_again(name, build)
    if name == "scheduler":
        wait_until(lambda: "goes on with run" in last_life(scheduler), "the scheduler goes on")
    if name.startswith("server"):
        wait_until(lambda: len(lost(read_log(scheduler))) > had, f"{name} is back")
    cluster.wait_for_commits(asks, WORKERS)
    after = cluster.status(asks)["commits"]
    expect(after > before, f"{before} commits before {name} was restarted, {after} after")


def check_rolling(place, old, new, durabilities):
    for durability in durabilities:
        cluster = Cluster(place / durability, cluster_text(
            durability, rate=0.0005, more='[wire]\nup = "top-k"\nkeep = 0.1\n'))
        names = ["scheduler", "server-0", "server-1", *WORKERS]
        state = cluster.place / "state"
        journal, copy = state / "scheduler.journal", cluster.place / "before.journal"
        cluster.start_all({name: old for name in names}, lambda name: ["--state", str(state)])
        try:
            wait_until(lambda: "training starts" in read_log(cluster.nodes["scheduler"]),
                       "training starts")
            cluster.wait_for_commits(old, WORKERS)
            began = clock()
            cluster.stop(["scheduler"])
            shutil.copy(journal, copy)
            cluster.start_again("scheduler", new)
            cluster.wait_for_commits(new, WORKERS)
            for name in names[1:]:
                restart(cluster, name, new, old)
            took = clock() - began
            # A server and a worker go back alone, the scheduler with all nodes.
            for name in ("server-1", "w2"):
                restart(cluster, name, old, new)
            cluster.stop(names)
            shutil.copy(copy, journal)
            for name in names:
                cluster.start_again(name, old)
            wait_until(lambda: len(lost(last_life(cluster.nodes["scheduler"]))) == 2,
                       "both servers are back")
            cluster.wait_for_commits(old, WORKERS)
            restart(cluster, "scheduler", new, old)
            now = cluster.status(new)
            cluster.stop(["scheduler"])
            cluster.start_again("scheduler", new, "--target-loss", f"{0.9 * now['loss']:.4f}")
            run = cluster.wait_for_end()
        finally:
            cluster.kill()
        back = lost(read_log(cluster.nodes["scheduler"]))
        expect(back == [0] * 5, f"servers that came back: {back} commits lost")
        expect_target(run)
        expect(run["commits"] >= now["commits"], f"{now['commits']} commits before the last "
               f"restart, {run['commits']} at the end")
        yield (f"{durability}: scheduler, servers, workers in {took:.0f} s, a server and a worker "
               f"back, then all of it back and forth; 0 commits lost, target reached")


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items())
          if name.startswith("check_")}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", type=pathlib.Path, nargs="*", help="OLD and NEW")
    parser.add_argument("--only", default=",".join(CHECKS), help="checks, comma-separated")
    parser.add_argument("--durability", default="journal,snapshot", help="comma-separated")
    parser.add_argument("--keep", type=pathlib.Path, help="new directory for logs and results")
    options = parser.parse_args()
    options.only, options.durability = options.only.split(","), options.durability.split(",")
    for name in options.only:
        if name not in CHECKS:
            parser.error(f"--only {name}: choose from {', '.join(CHECKS)}")
    if len(options.builds) not in (0, 2):
        parser.error("name both builds, OLD and NEW, or none")
    for build in options.builds:
        if not os.access(build, os.X_OK):
            parser.error(f"{build}: no such program")
    return options


def main():
    options = read_options()
    # A caller that works in the background may ignore it, and so would all nodes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        builds = options.builds or [built_release(), newest_build()]
    except Failed as why:
        print(why, file=sys.stderr)
        return 2
    old, new = [str(build.resolve()) for build in builds]
    place = begin(options.keep, "upgrade-")
    os.environ["XDG_CACHE_HOME"] = str(place)
    failed = False
    for name in options.only:
        began = clock()
        (place / name).mkdir()
        try:
            for line in CHECKS[name](place / name, old, new, options.durability):
                print(f"ok      {name}: {line}", flush=True)
        except Failed as why:
            failed = True
            print(f"FAILED  {name}: {why}", flush=True)
        print(f"        {name}: {clock() - began:.0f} s", file=sys.stderr, flush=True)
    if failed:
        print(f"logs and results: {place}", file=sys.stderr)
    elif not options.keep:
        shutil.rmtree(place)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
