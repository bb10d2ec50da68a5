#!/usr/bin/env python3
"""Runs a real cluster for some minutes, and fails where something grows in a node.

Usage: tests/soak.sh MINUTES [--rubato PATH] [--every 5] [--evaluate SECONDS] [--keep DIR] ...

A scheduler with its page, two servers with durability = "journal", and three workers that stay run
as processes on loopback. Two more workers, the guests, come and go: they stop in order and are
killed by turns. The page, /metrics, /events and `rubato status` are read all the time, also by
readers that send half a question.

Every few seconds it measures each node:

  private     memory of this process alone
  resident    all memory that it has in RAM: shown, not judged, because the shared memory of links
              fills for minutes
  mappings    pieces of its address space: what is mapped and never given back
  files       open file descriptors
  threads
  journal     bytes of its journal in --state
  snapshots   bytes of its snapshots there
  output      bytes in the directory of the run
  log         bytes that it has printed

THE RULE. The first half of the run is warm-up: buffers, arenas and curves fill. A scheduler keeps
8,192 evaluations, and each is in the texts of the page: a run of 12 minutes or more evaluates so
often that they are full by then. In the second half
the slope is the median of the slopes between all pairs of samples (Theil and Sen): a burst, a jump
or the teeth of a saw do not move it. A quantity grows if its slope is above the bound of an hour
(BOUNDS), and the second half also adds more than a floor, which is above the noise. So a run of 12
minutes finds 1 KiB of memory a second, and one of an hour 0.6. A shorter run than 12 minutes has
not filled its buffers: its floors are higher by 12 / MINUTES. It shows that this script works.
The scheduler's journal is a record of what it heard, and grows by design. Its bytes for each commit
of the second half have a bound (BYTES_OF_COMMIT), and so has its largest record there
(BYTES_OF_RECORD): who joins again and again must not write much.
A log may also grow by BYTES_OF_VISIT for each visit of a guest. Page and status must answer, but
for FAILED_PERCENT of the questions.
Guests are measured too. They live too short to be judged.

It prints a table of the curves, and the path of a CSV file with all samples.
Exit code: 0 nothing grows; 1 something does (a line names node and quantity), or a node ended by
itself; 2 for bad input.
"""
import argparse
import csv
import http.client
import itertools
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from storm import (BadInput, Node, Ports, ROOT, START_PATIENCE, begin, clock, die_with_parent,
                   positive, read_log, say)

KIB, MIB = 1024, 1024 * 1024
SERVERS, WORKERS, GUESTS = ["server-0", "server-1"], ["w0", "w1", "w2"], ["guest-0", "guest-1"]
STAY_SECONDS, AWAY_SECONDS = 12, 3   # of a guest
LOOK_SECONDS = 0.1
STATUS_SECONDS = 5
INTERRUPTED = 143                    # exit code of a worker that SIGTERM stops in order
END_PATIENCE = 60                    # s, from SIGINT to the scheduler until all have ended
HALF_QUESTIONS_MAX = 60              # connections to the page that never ask to the end
FULL_MINUTES = 12                    # of a run whose floors are those of BOUNDS
EVALUATIONS = 8192                   # that a scheduler keeps
FILLED_BY = 0.45                     # of the run
EVALUATE_SECONDS = 0.5               # where they cannot be full by then
COLUMNS = 7                          # instants in the table

# quantity: (unit, growth of an hour that is allowed, growth of the second half below which all is
# noise). Bytes, or a count.
BOUNDS = {
    "private": ("KiB", 2 * MIB, 192 * KIB),
    "mappings": ("", 16, 8),
    "files": ("", 4, 3),
    "threads": ("", 4, 2),
    "journal": ("KiB", 4 * MIB, 1 * MIB),
    "snapshots": ("KiB", 16 * KIB, 16 * KIB),
    "output": ("KiB", 1 * MIB, 64 * KIB),
    "log": ("KiB", 64 * KIB, 4 * KIB),
    "resident": ("KiB", math.inf, 0),
}
BYTES_OF_VISIT = 512     # of a node's log, for each visit of a guest
BYTES_OF_COMMIT = 120    # of the scheduler's journal, with all else that it hears meanwhile
BYTES_OF_RECORD = 1024   # of the scheduler's journal: the largest one, such as that of a join
FAILED_PERCENT = 1       # of the questions to page and status


def cluster_text(options, addresses):
    workers = "".join(f'[[workers]]\nname = "{name}"\nstep_seconds = 0.05\n'
                      for name in WORKERS + GUESTS)
    return f"""name = "soak"
durability = "journal"
{workers}[servers]
count = {len(SERVERS)}
addresses = [{", ".join(f'"{each}"' for each in addresses)}]
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
[evaluation]
interval_seconds = {options.evaluate:g}
[snapshot]
every_seconds = 5
[stop]
max_seconds = {options.minutes * 60 + 3600:g}
"""


class Cluster:
    def __init__(self, place, options):
        ports = Ports()
        self.place, self.page = place, ports.take()
        at = {name: f"tcp://127.0.0.1:{ports.take()}" for name in ["scheduler", *SERVERS]}
        file = place / "soak.toml"
        file.write_text(cluster_text(options, [at[name] for name in SERVERS]))
        self.endpoint, self.rubato = at["scheduler"], options.rubato
        common, join = [str(file), "--sync", options.sync], ["--scheduler", at["scheduler"]]
        state = ["--state", str(place / "state")]
        self.nodes = {}
        self.add("scheduler", *common, "--bind", at["scheduler"], *state, "--out",
                 str(place / "out"), "--http", str(self.page))
        for name in SERVERS:
            self.add(name, *common, *join, "--name", name, "--bind", at[name], *state)
        for name in WORKERS + GUESTS:
            self.add(name, *common, *join, "--name", name, "--stretch")
        self.scheduler = self.nodes["scheduler"]
        self.visits = 0

    def add(self, name, *words):
        role = "worker" if name in WORKERS + GUESTS else name.split("-")[0]
        self.nodes[name] = Node(self.place, name, [self.rubato, role, *words], die_with_parent)

    def start(self):
        for node in self.nodes.values():
            node.start()

    def problems(self):
        """Lines about nodes that have ended and should not have."""
        for node in self.nodes.values():
            node.look(over=True)   # guests start again by their own clock, others never
        return [f"{name} ended by itself with code {code}" for name, node in self.nodes.items()
                for _, code in node.ends if name not in GUESTS or code not in (0, INTERRUPTED)]

    def expect_good_input(self):
        for node in self.nodes.values():
            if any(code == 2 for _, code in node.ends):
                raise BadInput(f"{node.name}: {read_log(node).splitlines()[-1]}")

    def stop(self):
        """Returns: lines about nodes that have not ended in time."""
        if self.scheduler.running():
            self.scheduler.process.send_signal(signal.SIGINT)
        until = clock() + END_PATIENCE
        while (left := [name for name, node in self.nodes.items() if node.running()]):
            if clock() > until:
                return [f"{name} has not ended {END_PATIENCE} s after the run" for name in left]
            time.sleep(LOOK_SECONDS)
        return []

    def kill_all(self):
        for node in self.nodes.values():
            node.kill()
            if node.process is not None:
                node.process.wait()


class Guest:
    """A worker that comes and goes. It stops in order and is killed by turns."""

    def __init__(self, cluster, name, first):
        self.cluster, self.node, self.turn_at, self.stays = cluster, cluster.nodes[name], first, 0

    def turn(self):
        if clock() < self.turn_at:
            return
        if self.node.running():
            self.stays += 1
            if self.stays % 2:
                self.node.process.send_signal(signal.SIGTERM)
            else:
                self.node.kill()
            self.turn_at = clock() + AWAY_SECONDS
        elif not self.node.is_kept():
            self.node.start()
            self.cluster.visits += 1
            self.turn_at = clock() + STAY_SECONDS


class Readers:
    """Reads the page, the figures, the events and the status of a run until it is stopped."""

    def __init__(self, cluster):
        self.cluster, self.over = cluster, threading.Event()
        self.answers = self.failures = self.commits = 0
        self.threads = [threading.Thread(target=each, daemon=True)
                        for each in (self.read_pages, self.read_events, self.ask_status)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()

    def get(self, path):
        page = http.client.HTTPConnection("127.0.0.1", self.cluster.page, timeout=10)
        try:
            page.request("GET", path)
            text = page.getresponse().read().decode()
            self.answers += 1
            return text
        except OSError:
            self.failures += not self.over.is_set()
            return ""
        finally:
            page.close()

    def read_pages(self):
        half = []
        while not self.over.wait(1):
            self.get("/")
            for line in self.get("/metrics").splitlines():
                if line.startswith("rubato_commits_total{"):
                    self.commits = int(float(line.split()[-1]))
            try:
                half.append(socket.create_connection(("127.0.0.1", self.cluster.page), timeout=5))
                half[-1].sendall(b"GET / HT")
            except OSError:
                self.failures += not self.over.is_set()
            for each in half[:-HALF_QUESTIONS_MAX]:
                each.close()
            del half[:-HALF_QUESTIONS_MAX]

    def read_events(self):
        while not self.over.wait(1):
            try:
                page = http.client.HTTPConnection("127.0.0.1", self.cluster.page, timeout=20)
                page.request("GET", "/events")
                answer = page.getresponse()
                while not self.over.is_set() and answer.read(4096):
                    pass
                page.close()
            except (OSError, http.client.HTTPException):
                pass

    def ask_status(self):
        words = [self.cluster.rubato, "status", "--scheduler", self.cluster.endpoint]
        while not self.over.wait(STATUS_SECONDS):
            done = subprocess.run(words, capture_output=True, check=False)
            self.answers += done.returncode == 0
            self.failures += done.returncode != 0 and not self.over.is_set()


# --- what is measured -----------------------------------------------------------------------------

def memory_of(pid):
    """Returns: bytes that are private, and all bytes in RAM."""
    private = resident = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        words = line.split()
        if words[0] in ("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"):
            private += int(words[1]) * KIB
        elif words[0] == "Rss:":
            resident = int(words[1]) * KIB
    return private, resident


def bytes_of(paths):
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:   # a server removes old ones
            pass
    return total


def measure(cluster, node):
    """Returns: {quantity: number}; nothing where no process runs."""
    if not node.running():
        return {}
    pid, state = node.process.pid, cluster.place / "state"
    try:
        private, resident = memory_of(pid)
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            mappings = sum(1 for _ in maps)
        found = {"private": private, "resident": resident, "mappings": mappings,
                 "files": len(os.listdir(f"/proc/{pid}/fd")),
                 "threads": len(os.listdir(f"/proc/{pid}/task"))}
    except OSError:
        return {}
    if node.name in GUESTS:
        return found
    if node.name not in WORKERS:
        found["journal"] = bytes_of(state.glob(f"{node.name}.*journal*"))
    if node.name in SERVERS:
        found["snapshots"] = bytes_of(state.glob(f"{node.name}.*snapshot*"))
    if node is cluster.scheduler:
        found["output"] = bytes_of((cluster.place / "out").iterdir())
    found["log"] = node.log.stat().st_size
    return found


class Curve:
    """A quantity of a node over time."""

    def __init__(self, node, quantity):
        self.node, self.quantity = node, quantity
        self.at, self.values = [], []

    def second_half(self):
        """(instant, value) of it."""
        middle = (self.at[0] + self.at[-1]) / 2
        return [(at, value) for at, value in zip(self.at, self.values) if at >= middle]


def slope(points):
    """The median slope of all pairs, a second."""
    slopes = [(there - here) / (then - now)
              for (now, here), (then, there) in itertools.combinations(points, 2) if then > now]
    return statistics.median(slopes) if slopes else 0


def largest_record(path, begin):
    """Bytes of the largest record of a scheduler's journal that ends behind byte `begin`.
    scheduler/scheduler_journal.hpp has the form."""
    journal = path.read_bytes()
    fields = int.from_bytes(journal[16:24], "little")
    at, largest = 3 * -(-(24 + fields + 8) // 4096) * 4096, 0
    while at < len(journal):
        size = 8 + int.from_bytes(journal[at:at + 3], "little")
        at += size
        if at > begin:
            largest = max(largest, size)
    return largest


# --- the rule -------------------------------------------------------------------------------------

def judge(curve, visits, minutes):
    """visits: of guests in the second half. Returns: (growth of an hour, what is wrong or "")."""
    points = curve.second_half()
    unit, hourly, floor = BOUNDS[curve.quantity]
    floor *= max(1, FULL_MINUTES / minutes)
    per_second, seconds = slope(points), points[-1][0] - points[0][0]
    if curve.quantity == "log" and seconds:
        hourly += BYTES_OF_VISIT * visits * 3600 / seconds
    grows = per_second * 3600 > hourly and per_second * seconds > floor
    # The scheduler's journal has a rule of its own.
    judged = curve.node not in GUESTS and (curve.node, curve.quantity) != ("scheduler", "journal")
    wrong = ""
    if grows and judged:
        wrong = (f"{curve.node}: {curve.quantity} grows by {shown(per_second * 3600, unit)} an "
                 f"hour, and {shown(hourly, unit)} are allowed")
    return per_second * 3600, wrong


def judge_journal(path, heard):
    """heard: (commits, bytes of the scheduler's journal) at each sample. Returns: (bytes of a
    commit, bytes of the largest record, lines about what is wrong)."""
    (before, begin), (after, end) = heard[len(heard) // 2], heard[-1]
    commit, record = (end - begin) / max(1, after - before), largest_record(path, begin)
    wrong = []
    if commit > BYTES_OF_COMMIT:
        wrong.append(f"scheduler: journal grows by {commit:.0f} bytes a commit, and "
                     f"{BYTES_OF_COMMIT} are allowed")
    if record > BYTES_OF_RECORD:
        wrong.append(f"scheduler: journal has a record of {record} bytes, and {BYTES_OF_RECORD} "
                     "are allowed")
    return commit, record, wrong


def shown(value, unit):
    return f"{value / KIB:,.0f} {unit}" if unit else f"{value:,.1f}"


def show(curves, growth):
    """Prints the table. growth: of an hour, by curve."""
    end = max(curve.at[-1] for curve in curves.values())
    looks = [end * i / (COLUMNS - 1) for i in range(COLUMNS)]
    print(f"{'node':10}{'quantity':16}" + "".join(f"{at / 60:8.1f}m" for at in looks)
          + f"{'an hour':>10}")
    for (node, quantity), curve in curves.items():
        scale = KIB if (unit := BOUNDS[quantity][0]) else 1
        cells = [curve.values[min(range(len(curve.at)), key=lambda i: abs(curve.at[i] - at))]
                 for at in looks] + [growth[node, quantity]]
        print(f"{node:10}{quantity + (', ' + unit if unit else ''):16}"
              + "".join(f"{value / scale:9,.0f}" for value in cells[:-1])
              + f"{cells[-1] / scale:+10,.0f}")


class Samples:
    """All that is measured in a run, in memory and as CSV."""

    def __init__(self, cluster, readers, file):
        self.cluster, self.readers, self.table = cluster, readers, csv.writer(file)
        self.curves = {}   # by node and quantity
        self.heard = []    # (commits, bytes of the scheduler's journal)
        self.visits = []   # of guests so far
        self.table.writerow(["seconds", "node", "quantity", "value"])

    def take(self, at):
        """at: seconds of the run."""
        for name, node in self.cluster.nodes.items():
            for quantity, value in measure(self.cluster, node).items():
                curve = self.curves.setdefault((name, quantity), Curve(name, quantity))
                curve.at.append(at)
                curve.values.append(value)
                self.table.writerow([f"{at:.1f}", name, quantity, value])
        self.heard.append((self.readers.commits, self.curves["scheduler", "journal"].values[-1]))
        self.visits.append(self.cluster.visits)

    def judge(self, minutes):
        """Prints what was found. Returns: lines about what is wrong."""
        visits = self.visits[-1] - self.visits[len(self.visits) // 2]
        judged = {key: judge(curve, visits, minutes) for key, curve in self.curves.items()}
        path = self.cluster.place / "state" / "scheduler.journal"
        commit, record, wrong = judge_journal(path, self.heard)
        answers, failures = self.readers.answers, self.readers.failures
        if 100 * failures > FAILED_PERCENT * (answers + failures):
            wrong.append(f"scheduler: {failures} of {answers + failures:,} questions to page and "
                         "status had no answer")
        show(self.curves, {key: growth for key, (growth, _) in judged.items()})
        print(f"{self.readers.commits:,} commits, {self.visits[-1]} visits of guests; the "
              f"scheduler's journal takes {commit:.0f} bytes a commit, its largest record has "
              f"{record}")
        print(f"{answers:,} answers of page and status, {failures} failed")
        return [line for _, line in judged.values() if line] + wrong


def run(options, place):
    """Returns: lines about what is wrong; empty if all is well."""
    cluster, readers = Cluster(place, options), None
    try:
        cluster.start()
        give_up_at = clock() + START_PATIENCE
        while "training starts" not in read_log(cluster.scheduler):
            wrong = cluster.problems()
            cluster.expect_good_input()
            if wrong or clock() > give_up_at:
                return wrong or [f"no training within {START_PATIENCE} s"]
            time.sleep(LOOK_SECONDS)
        readers, began = Readers(cluster), clock()
        guests = [Guest(cluster, name, began + STAY_SECONDS * (i + 1) / len(GUESTS))
                  for i, name in enumerate(GUESTS)]
        say(f"trains; page http://127.0.0.1:{cluster.page}/")
        with open(place / "soak.csv", "w", newline="", encoding="utf-8") as file:
            samples, next_at = Samples(cluster, readers, file), began
            while clock() < began + options.minutes * 60:
                if wrong := cluster.problems():
                    return wrong
                for guest in guests:
                    guest.turn()
                if clock() >= next_at:
                    next_at += options.every
                    samples.take(clock() - began)
                time.sleep(LOOK_SECONDS)
        readers.stop()
        wrong = samples.judge(options.minutes)
        print(f"samples: {place / 'soak.csv'}")
        return wrong + cluster.stop()
    finally:
        if readers:
            readers.stop()
        cluster.kill_all()


def read_options():
    parser = argparse.ArgumentParser(
        description="Runs a real cluster, and fails where something grows in a node.")
    add = parser.add_argument
    add("minutes", metavar="MINUTES", type=positive, help="of training; the first half is warm-up")
    add("--rubato", default=str(ROOT / "build/dev/cli/rubato"), help="the command")
    add("--sync", default="adsp", help="sync model (default: adsp)")
    add("--every", type=positive, default=5, help="seconds from sample to sample (default: 5)")
    add("--evaluate", type=positive,
        help="seconds from evaluation to evaluation (default: the scheduler's curves are full after "
             "half of the run)")
    add("--keep", type=pathlib.Path,
        help="directory for logs, state and samples (default: samples alone stay if all is well)")
    options = parser.parse_args()
    if not os.access(options.rubato, os.X_OK):
        parser.error(f"--rubato {options.rubato}: no such command; build it, or name another")
    if options.keep and options.keep.exists():
        parser.error(f"--keep {options.keep}: is there already; name a new directory")
    if options.every * 12 > options.minutes * 60:
        parser.error(f"--every {options.every:g}: a run needs twelve samples at least")
    options.rubato = os.path.realpath(options.rubato)
    if options.evaluate is None:
        fills = options.minutes >= FULL_MINUTES
        options.evaluate = (options.minutes * 60 * FILLED_BY / EVALUATIONS if fills
                            else EVALUATE_SECONDS)
    return options


def main():
    options = read_options()
    # A caller that works in the background may ignore it, and so would all nodes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    place = begin(options.keep, "soak-")
    try:
        wrong = run(options, place)
    except BadInput as error:
        print(error, file=sys.stderr)
        shutil.rmtree(place)
        return 2
    except KeyboardInterrupt:
        wrong = None
    if wrong:
        for line in wrong:
            print(line, file=sys.stderr)
        print(f"logs and state: {place}", file=sys.stderr)
        return 1
    if not options.keep:
        for path in place.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "soak.csv":
                path.unlink()
    return 130 if wrong is None else 0


if __name__ == "__main__":
    sys.exit(main())
