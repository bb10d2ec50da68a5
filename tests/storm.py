#!/usr/bin/env python3
"""Runs a real cluster in a storm of faults beside an undisturbed one, and compares the two.

Usage: tests/storm.py [--rubato PATH] [--sync adsp] [--minutes 10] [--every 20] [--seed 1] ...

Both clusters run on this machine at the same time, from one cluster file, as processes that are
started again when they fail, as systemd does it. In one of them a node has a fault every few
seconds:

  kill     SIGKILL; started again after 0.2 s
  freeze   SIGSTOP, and SIGCONT after 0.5 s to --longest
  cut      nothing passes its connections for as long; nothing is lost on the way
  reset    its connections break, and may be made again at once

Each fault on each node is in a deck that the seed shuffles. Both clusters talk through the proxy of
tests/cut_proxy.py, which also sees what was committed and answered. A low limit of file size keeps
nodes from sharing memory, where nothing could be cut.

It prints a table, and a line for each bar: reached or not. Faults are told on stderr as they
happen.
Exit code: 0 nothing was lost, no node ended by itself before its run or with a wrong code, and none
hung; 1 otherwise; 2 for bad input. A bar that is not reached changes no exit code.
"""
import argparse
import ctypes
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from cut_proxy import History, Proxy, pass_on

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ["kill", "freeze", "cut", "reset"]
FILE_BYTES_MAX = 16 * 1024 * 1024   # below the shared memory of one link, far above a journal here
RESTART_SECONDS = 0.2
SHORTEST = 0.5                      # s, of a freeze or a cut
LOOK_SECONDS = 0.02                 # from one look at processes and faults to the next
REST_SECONDS = 10                   # without a fault before the end, at least: a process starts
START_PATIENCE = 60                 # s
END_PATIENCE = 60                   # s, from the end of training until each process has ended
STANDSTILL_BAR = 3                  # s
ADSP_RATE = 8                       # commits a check period; two searches may end at different rates
LIFE = "== life "                   # begins a line of ours in a log: another process of the node
UNTOLD_OF_WORKER = 3                # commits that the scheduler has not heard of, as tests/simulation
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def clock():
    return time.monotonic()


def throughput_bar(sync):
    """Percent of the undisturbed steps. Under BSP all wait for a worker that is away."""
    return 95 if sync == "bsp" else 98.5


def step_times(workers):
    """Seconds of a step by worker: each is slower than the one before by the same factor."""
    slower = (0.1 / 0.03) ** (1 / max(1, workers - 1))
    return {f"w{i}": round(0.03 * slower**i, 4) for i in range(workers)}


def cluster_text(options, addresses):
    workers = "".join(f'[[workers]]\nname = "{name}"\nstep_seconds = {seconds}\n'
                      for name, seconds in step_times(options.workers).items())
    return f"""name = "storm"
seed = {options.seed}
durability = "{options.durability}"
{workers}[servers]
count = {options.servers}
addresses = {json.dumps(addresses)}
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "blobs"
spread = 1.5
samples = 4000
features = 10
classes = 4
[training]
batch = 16
learning_rate = 0.005
[sync.adsp]
check_period_seconds = 1
fixed_rate = {ADSP_RATE}
[evaluation]
interval_seconds = 1
[snapshot]
every_seconds = 10
[stop]
max_seconds = {options.minutes * 60:g}
"""


def read_log(node):
    return node.log.read_text(errors="replace")


def number_of(text):
    return int(text.replace(",", ""))


class BadInput(Exception):
    """One line, which a node has said of its options."""


class Ports:
    """Free ports below those that the kernel gives to connections, so that a node that comes back
    finds its own free."""

    def __init__(self):
        self.given = set()

    def take(self):
        for port in random.sample(range(20000, 32000), 1000):
            if port in self.given:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            self.given.add(port)
            return port
        sys.exit("no free port from 20000 to 32000")


class Node:
    """A process that is started again when it fails. Its log is one file for all its lives."""

    def __init__(self, place, name, words, prepare):
        """prepare: what the process does before it becomes `words`."""
        self.name, self.words, self.prepare = name, words, prepare
        self.log = place / f"{name}.log"
        self.process = None
        self.start_at = None      # when it is to be started again
        self.killed = False       # by the storm; the exit is not its own
        self.lives = []           # the ids of its processes
        self.ends = []            # (instant, exit code) of those that ended by themselves

    def start(self):
        self.start_at, self.killed = None, False
        with open(self.log, "a", encoding="utf-8") as log, open(os.devnull) as nothing:
            log.write(f"{LIFE}{len(self.lives) + 1}\n")
            log.flush()
            self.process = subprocess.Popen(self.words, stdin=nothing, stdout=log, stderr=log,
                                            start_new_session=True, preexec_fn=self.prepare)
        self.lives.append(self.process.pid)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def is_kept(self):
        """It runs, or will run again."""
        return self.process is not None or self.start_at is not None

    def kill(self):
        if self.running():
            self.killed = True
            self.process.kill()

    def look(self, over):
        """over: the run is over, so nobody is started again."""
        if self.process is not None and self.process.poll() is not None:
            code = self.process.returncode
            self.process = None
            if not self.killed:
                self.ends.append((clock(), code))
            if not over and (self.killed or code not in (0, 2)):
                self.start_at = clock() + RESTART_SECONDS
        if self.start_at is not None and clock() >= self.start_at:
            self.start()


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def prepare_child():
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


class Cluster:
    def __init__(self, title, place, options, ports, selector):
        self.title, self.place = title, place
        place.mkdir(parents=True)
        self.servers = [f"server-{i}" for i in range(options.servers)]
        self.history = History(self.servers)
        self.proxy = Proxy(selector, self.history,
                           lambda: {name: node.process.pid for name, node in self.nodes.items()
                                    if node.running()})
        doors = {name: ports.take() for name in ["scheduler", *self.servers]}
        inside = {name: ports.take() for name in doors}
        for name, port in doors.items():
            self.proxy.listen(name, port, inside[name])
        at = {name: f"tcp://127.0.0.1:{port}" for name, port in doors.items()}
        file = place / "storm.toml"
        self.workers = list(step_times(options.workers))
        file.write_text(cluster_text(options, [at[name] for name in self.servers]))

        self.nodes = {}
        common = [str(file), "--sync", options.sync]
        join = ["--scheduler", at["scheduler"]]
        self.add("scheduler", options.rubato, ["scheduler", *common, "--bind",
                 f"tcp://127.0.0.1:{inside['scheduler']}", "--state", str(place / "state"), "--out",
                 str(place / "out")])
        for name in self.servers:
            self.add(name, options.rubato, ["server", *common, *join, "--name", name, "--bind",
                     f"tcp://127.0.0.1:{inside[name]}", "--advertise", at[name], "--state",
                     str(place / "state")])
        for name in self.workers:
            self.add(name, options.rubato, ["worker", *common, *join, "--name", name, "--stretch"])
        self.scheduler = self.nodes["scheduler"]
        self.began = self.until = None   # of the training

    def add(self, name, rubato, words):
        self.nodes[name] = Node(self.place, name, [rubato, *words], prepare_child)

    def start(self):
        for node in self.nodes.values():
            node.start()

    def look(self, over=False):
        for node in self.nodes.values():
            node.look(over)

    def trains(self):
        return "training starts" in read_log(self.scheduler)

    def expect_good_input(self):
        for node in self.nodes.values():
            if any(code == 2 for _, code in node.ends):
                lines = read_log(node).splitlines()
                raise BadInput(lines[-1] if len(lines) > 1 else f"{node.name}: exit code 2")

    def running(self):
        return [name for name, node in self.nodes.items() if node.running()]

    def kill_all(self):
        for node in self.nodes.values():
            node.start_at = None
            node.kill()
        for node in self.nodes.values():
            if node.process is not None:
                node.process.wait()

    # --- what is known at the end -----------------------------------------------------------------

    def results(self):
        path = self.place / "out" / "results.json"
        return json.loads(path.read_text())["runs"][0] if path.exists() else None

    def said_lost(self):
        """The commits that the scheduler has called lost, each time that a server came back."""
        said = re.findall(r"is back .*: ([\d,]+) commits? lost", read_log(self.scheduler))
        return [number_of(each) for each in said]

    def lost(self, server):
        """The commits that a process answered, and the next one did not have."""
        node, lost, had, answered = self.nodes[server], 0, 0, 0
        lives = read_log(node).split(LIFE)[1:]
        for process, log in zip(node.lives, lives):
            found = re.search(r"goes on from snapshot .* which holds ([\d,]+) commit"
                              r"(?:.* journal, which has ([\d,]+) more)?", log)
            if found:
                has = number_of(found[1]) + number_of(found[2] or "0")
                lost += max(0, answered - (has - had))
                had, answered = has, 0
            answered += self.history.by_process[server, process]
        return lost + max(0, answered - (self.commits_on_disk(server) - had))

    def commits_on_disk(self, server):
        """Of the newest snapshot, that of the end. server/file_storage.cpp has its form."""
        newest = (0, 0)
        for path in (self.place / "state").glob(f"{server}.*.snapshot"):
            _, _, _, _, number, commits = struct.unpack("<8s5Q", path.read_bytes()[:48])
            newest = max(newest, (number, commits))
        return newest[1]

    def wrong_ends(self):
        """Lines about processes that ended by themselves and should not have."""
        lines = []
        for name, node in self.nodes.items():
            for at, code in node.ends:
                early = self.until is None or at < self.until - 1
                if early or code != 0:
                    when = f"{at - self.began:.1f} s" if self.began else "the start"
                    lines.append(f"{self.title}: {name} ended by itself at {when} with code {code}")
        return lines


@dataclasses.dataclass
class Fault:
    kind: str
    node: str
    seconds: float = 0

    def __str__(self):
        return f"{self.kind} {self.node}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


def deal(options, nodes):
    """Faults for ever: each kind on each node once, shuffled, and again."""
    chance = random.Random(options.seed)
    while True:
        deck = [(kind, node) for kind in options.faults for node in nodes]
        chance.shuffle(deck)
        for kind, node in deck:
            lasts = kind in ("freeze", "cut")
            yield Fault(kind, node, chance.uniform(SHORTEST, options.longest) if lasts else 0)


class Storm:
    def __init__(self, options, cluster):
        self.options, self.cluster = options, cluster
        self.faults = deal(options, list(cluster.nodes))
        self.told = []     # (instant, fault) so far
        self.timers = []   # (instant, what to do)
        self.next_at = None
        self.late = 0      # seconds that the proxy was held up at most: a busy machine

    def begin(self):
        self.next_at = self.cluster.began + self.options.every

    def turn(self):
        now = clock()
        for timer in [timer for timer in self.timers if timer[0] <= now]:
            self.timers.remove(timer)
            timer[1]()
        # After the last one there is time to come back.
        rest = max(self.options.every, 2 * self.options.longest, REST_SECONDS)
        if now < self.next_at or self.next_at + rest > self.cluster.until + 0.5:
            return
        self.next_at += self.options.every
        self.tell_last(now)
        fault = next(self.faults)
        self.told.append((now, fault))
        say(f"{now - self.cluster.began:6.1f} s  {fault}")
        self.apply(fault, now)

    def tell_last(self, now):
        if self.told:
            begin, _ = self.told[-1]
            longest, at = self.cluster.history.standstill(begin, now)
            say(f"          no commit for {longest:.2f} s, {max(0, at - begin):.1f} s after it")

    def apply(self, fault, now):
        node, proxy = self.cluster.nodes[fault.node], self.cluster.proxy
        if fault.kind == "kill":
            node.kill()
        elif fault.kind == "reset":
            proxy.reset(fault.node)
        elif fault.kind == "cut":
            proxy.cut(fault.node)
            self.timers.append((now + fault.seconds, lambda: proxy.heal(fault.node)))
        elif node.running():
            process = node.process
            process.send_signal(signal.SIGSTOP)
            self.timers.append((now + fault.seconds, lambda: process.send_signal(signal.SIGCONT)))

    def heal(self):
        for _, undo in self.timers:
            undo()
        self.timers = []

    def healed_at(self):
        return max((at + fault.seconds for at, fault in self.told), default=self.cluster.began)

    def worst(self):
        """The longest standstill, and its fault: the first one within it, or the last before."""
        longest, at = self.cluster.history.standstill(self.cluster.began, self.cluster.until)
        within = [fault for instant, fault in self.told if at <= instant < at + longest]
        before = [fault for instant, fault in self.told if instant < at]
        cause = (within[:1] or before[-1:] or ["before the first fault"])[0]
        return longest, f"at {at - self.cluster.began:.1f} s, {cause}"


def say(words):
    print(words, file=sys.stderr, flush=True)


def run(options, place):
    """Returns: lines about what must not happen; empty if all is well."""
    ports, selector = Ports(), selectors.DefaultSelector()
    calm, rough = both = [Cluster(title, place / title, options, ports, selector)
                          for title in ("undisturbed", "storm")]
    storm = Storm(options, rough)

    def turn():
        nonlocal last
        storm.late = max(storm.late, clock() - last - LOOK_SECONDS)
        last = clock()
        until = last + LOOK_SECONDS
        while (left := until - clock()) > 0:
            pass_on(selector, left)
        for cluster in both:
            cluster.look(over=cluster.until is not None and clock() >= cluster.until)

    last = clock()
    try:
        for cluster in both:
            cluster.start()
        give_up_at = clock() + START_PATIENCE
        while not all(cluster.began for cluster in both):
            turn()
            for cluster in both:
                if not cluster.began and cluster.trains():
                    cluster.began = clock()
                    cluster.until = cluster.began + options.minutes * 60
            for cluster in both:
                cluster.expect_good_input()
            failed = [line for cluster in both for line in cluster.wrong_ends()]
            if failed or clock() > give_up_at:
                return failed or [f"no training within {START_PATIENCE} s"]
        say(f"both train, {options.sync}, seed {options.seed}")
        storm.begin()
        storm.late = 0
        while clock() < max(cluster.until for cluster in both) and rough.scheduler.is_kept():
            storm.turn()
            turn()
        storm.tell_last(clock())
        storm.heal()
        if not rough.scheduler.is_kept() and clock() < rough.until - 1:
            return rough.wrong_ends()   # nothing can come of it
        say("the runs are over")
        give_up_at = clock() + END_PATIENCE
        while any(cluster.running() for cluster in both) and clock() < give_up_at:
            turn()
        problems = [f"{cluster.title}: {name} has not ended within {END_PATIENCE} s"
                    for cluster in both for name in cluster.running()]
    finally:
        for cluster in both:
            cluster.kill_all()
    return problems + judge(options, storm, calm, rough)


def judge(options, storm, calm, rough):
    problems = calm.wrong_ends() + rough.wrong_ends()
    runs = [cluster.results() for cluster in (calm, rough)]
    if not all(runs):
        return problems + [f"{cluster.title}: no results.json"
                           for cluster, result in zip((calm, rough), runs) if not result]
    lost, said = [], []
    for cluster, result in zip((calm, rough), runs):
        counted = sum(worker["commits"] for worker in result["workers"])
        if counted != result["commits"]:
            problems.append(f"{cluster.title}: {counted} commits of workers, "
                            f"{result['commits']} of the run")
        for server in cluster.servers:
            has, sent = cluster.commits_on_disk(server), len(cluster.history.sent[server])
            if has > sent:
                problems.append(f"{cluster.title}: {server} has {has} commits, of {sent} sent")
        lost.append(sum(cluster.lost(server) for server in cluster.servers))
        said.append(sum(cluster.said_lost()))
        # Its count goes by what workers have reported, and may be off by their last commits.
        doubt = UNTOLD_OF_WORKER * options.workers * len(cluster.said_lost())
        if options.durability == "snapshot" and cluster is rough:
            continue
        if lost[-1] > 0:
            problems.append(f"{cluster.title}: {lost[-1]} answered commits are lost")
        if said[-1] > lost[-1] + doubt:
            problems.append(f"{cluster.title}: the scheduler says that {said[-1]} commits are "
                            f"lost; of those that were answered, {lost[-1]} are")
    # Once everything is healed, every worker commits.
    healed_at = storm.healed_at()
    for worker in rough.workers:
        if rough.history.last_by.get(worker, 0) < healed_at:
            problems.append(f"storm: {worker} has not committed in the last "
                            f"{rough.until - healed_at:.1f} s, without a fault")
    seen, of = len(calm.history.at), runs[0]["commits"]
    if not 0.9 * of - options.workers <= seen <= of + options.workers:
        problems.append(f"undisturbed: the proxy has seen {seen} of {of} commits; has the protocol "
                        "changed?")
    show(options, storm, (calm, rough), runs, (lost, said))
    return problems


def share_held(options, node):
    """Part of the steps that cannot be made while this node is away: what no product can do better,
    but for the steps that others make without waiting."""
    if node == "scheduler":
        return 0
    times = step_times(options.workers)
    if node not in times or options.sync == "bsp":
        return 1
    return (1 / times[node]) / sum(1 / each for each in times.values())


def show(options, storm, clusters, runs, losses):
    lost, said = losses
    calm, rough = clusters
    rates = [result["steps"] / result["seconds"] for result in runs]
    share = 100 * rates[1] / rates[0] if rates[0] else 0
    made = [result["commits"] / result["seconds"] for result in runs]
    committed = 100 * made[1] / made[0] if made[0] else 0
    stood = [cluster.history.standstill(cluster.began, cluster.until)[0] for cluster in clusters]
    kinds = [fault.kind for _, fault in storm.told]
    lasted = sum(fault.seconds for _, fault in storm.told)
    floor = sum(fault.seconds * share_held(options, fault.node) for _, fault in storm.told)
    rows = [
        ("", "undisturbed", "storm"),
        ("faults", "0", f"{len(kinds)}"),
        *((f"  {kind}", "", str(kinds.count(kind))) for kind in options.faults),
        ("  freezes and cuts together, s", "", f"{lasted:.1f}"),
        ("  steps that fall into them, %", "", f"{100 * floor / (60 * options.minutes):.1f}"),
        ("steps", *(f"{result['steps']:,}" for result in runs)),
        ("steps a second", *(f"{rate:.2f}" for rate in rates)),
        ("commits", *(f"{result['commits']:,}" for result in runs)),
        ("answered commits that are lost", *map(str, lost)),
        ("  as the scheduler says", *map(str, said)),
        ("longest time without a commit, s", *(f"{each:.2f}" for each in stood)),
        ("the proxy was held up for, s", f"{storm.late:.2f}", f"{storm.late:.2f}"),
        ("final loss", *(f"{result['final_loss']:.4f}" for result in runs)),
        ("final accuracy", *(f"{result['final_accuracy']:.4f}" for result in runs)),
    ]
    print(f"{options.sync}, {options.workers} workers, {options.servers} servers, a fault every "
          f"{options.every:g} s for {options.minutes:g} minutes, seed {options.seed}, "
          f"durability {options.durability}")
    for name, left, right in rows:
        print(f"{name:34}{left:>14}{right:>14}")
    longest, where = storm.worst()
    bar = throughput_bar(options.sync)
    tell(f"steps: {share:.1f} % of the undisturbed ones, bar {bar:g} %", share >= bar)
    tell(f"commits: {committed:.1f} % of the undisturbed ones, bar {bar:g} %", committed >= bar)
    tell(f"answered commits lost: {lost[1]}, as the scheduler says {said[1]}, bar 0",
         lost[1] == said[1] == 0)
    tell(f"longest time without a commit: {longest:.2f} s ({where}), bar {STANDSTILL_BAR} s",
         longest < STANDSTILL_BAR)


def tell(words, reached):
    print(f"{words}: {'reached' if reached else 'not reached'}")


def positive(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def some(text):
    value = int(text)
    if not 1 <= value <= 32:
        raise ValueError(text)
    return value


def kinds_in(text):
    kinds = text.split(",")
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"{text}: choose from {','.join(KINDS)}")
    return kinds


def read_options():
    parser = argparse.ArgumentParser(
        description="Runs a real cluster in a storm of faults beside an undisturbed one.")
    add = parser.add_argument
    add("--rubato", default=str(ROOT / "build/dev/cli/rubato"), help="the command")
    add("--sync", default="adsp", help="sync model (default: adsp)")
    add("--minutes", type=positive, default=10, help="of training (default: 10)")
    add("--every", type=positive, default=20, help="seconds from fault to fault (default: 20)")
    add("--longest", type=positive, default=2,
        help="seconds that a freeze or a cut lasts at most (default: 2)")
    add("--seed", type=int, default=1, help="of the faults and the runs (default: 1)")
    add("--durability", choices=["journal", "snapshot"], default="journal")
    add("--faults", type=kinds_in, default=KINDS, help=f"kinds (default: {','.join(KINDS)})")
    add("--workers", type=some, default=6)
    add("--servers", type=some, default=2)
    add("--keep", type=pathlib.Path, help="directory for logs and results (default: none is kept "
        "if all is well)")
    options = parser.parse_args()
    if not os.access(options.rubato, os.X_OK):
        parser.error(f"--rubato {options.rubato}: no such command; build it, or name another")
    if options.longest < SHORTEST:
        parser.error(f"--longest {options.longest:g}: is at least {SHORTEST:g}")
    if options.keep and options.keep.exists():
        parser.error(f"--keep {options.keep}: is there already; name a new directory")
    options.rubato = os.path.realpath(options.rubato)
    return options


def begin(keep, prefix):
    """Children take the kernels that fit this machine. Returns the new directory `keep`, or one for now."""
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"):
        os.environ.pop(name, None)
    if not keep:
        return pathlib.Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    keep.mkdir(parents=True)
    return keep.resolve()


def main():
    options = read_options()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    place = begin(options.keep, "storm-")
    try:
        problems = run(options, place)
    except BadInput as error:
        print(error, file=sys.stderr)
        shutil.rmtree(place)
        return 2
    except KeyboardInterrupt:
        problems = None
    if problems:
        for line in problems:
            print(line, file=sys.stderr)
        print(f"logs and results: {place}", file=sys.stderr)
        return 1
    if not options.keep:
        shutil.rmtree(place)
    return 130 if problems is None else 0


if __name__ == "__main__":
    sys.exit(main())
