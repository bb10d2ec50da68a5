#!/usr/bin/env python3
"""What `rubato whatif` says of a change beside the change really made: a real run of a cluster is
asked what if, then every change is made in the cluster file and run as throttled processes.
Printed of each change: time to the target, steps, commits and bytes, predicted and measured.

Usage: bench/truth.py [--quick] [--json FILE] [--rubato PROGRAM] [--jobs N] [--only NAME,...]
                      [--keep DIRECTORY]
  --jobs: so many real runs at a time; they need little processor time, but need it on time
  --keep: real runs stay there, and are not made again
Medians over seeds. Both sides have the same five seeds, or thirteen where chance may move the ratio
of both medians by more than the bar of their error.
"""
import argparse
import concurrent.futures
import copy
import dataclasses
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from statistics import median

import tools

SEEDS = (5, 13)
MEDIAN_BAR = 0.05
RIGHT_PART = 0.75  # of the rankings
COMMON = {
    "model": {"kind": "mlp", "hidden": [64]},
    "dataset": {"kind": "fashion-mnist"},
    "training": {"batch": 32, "learning_rate": 0.05},
    "evaluation": {"interval_seconds": 0.1, "samples": 2000},
    "stop": {"max_seconds": 90},
}
LINK_KEYS = ("link", "latency_seconds", "link_jitter", "up_mbps", "down_mbps", "loss")
TITLES = {"bsp": "BSP", "asp": "ASP", "ssp": "SSP", "adsp": "ADSP", "tempo": "Tempo",
          "local-sgd": "Local SGD"}


@dataclasses.dataclass
class Change:
    """`name`: that of its row; `words` ask for it; `edit` makes it in a cluster."""
    name: str
    words: list
    edit: object = None
    sync: str = None


@dataclasses.dataclass
class Question:
    """A cluster under a model, and what is changed of it."""
    name: str
    sync: str
    target: float
    workers: list
    changes: list
    more: dict = dataclasses.field(default_factory=dict)

    def cluster(self):
        tables = copy.deepcopy(COMMON)
        tables["workers"] = copy.deepcopy(self.workers)
        tables["stop"]["target_loss"] = self.target
        for table, keys in self.more.items():
            if isinstance(keys, dict):
                tables.setdefault(table, {}).update(copy.deepcopy(keys))
            else:
                tables[table] = copy.deepcopy(keys)
        return tables


def sync(model):
    return Change(TITLES[model], ["--sync", model], sync=model)


def without(group):
    def edit(cluster):
        cluster["workers"] = [each for each in cluster["workers"] if each["name"] != group]
        events = [each for each in cluster.pop("churn", []) if each["worker"] != group]
        if events:
            cluster["churn"] = events
    return Change(f"without {group}", ["--without", group], edit)


def more_like(count, group):
    def edit(cluster):
        like = next(each for each in cluster["workers"] if each["name"] == group)
        cluster["workers"].append(dict(like, name="more", count=count))
    return Change(f"{count} more like {group}", ["--add", str(count), "--like", group], edit)


def link(node, row):
    def edit(cluster):
        nodes = ([cluster.setdefault("servers", {})] if node == "servers" else
                 [each for each in cluster["workers"] if each["name"] == node])
        for each in nodes:
            for key in LINK_KEYS:
                each.pop(key, None)
            each["link"] = row
    return Change(f"{node} on {row}", ["--link", f"{node}={row}"], edit)


def codec(name):
    return Change(f"codec {name}", ["--codec", name],
                  lambda cluster: cluster.update(wire={"up": name, "down": name}))


def setting(key, value):
    def edit(cluster):
        *path, last = key.split(".")
        table = cluster
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    text = f"{key}={json.dumps(value, separators=(',', ':'))}"
    return Change(text, ["--set", text], edit)


QUESTIONS = [
    Question("two speeds", "bsp", 0.6,
             [{"name": "pi", "count": 2, "step_seconds": 0.06, "latency_seconds": 0.01},
              {"name": "slow", "step_seconds": 0.15, "latency_seconds": 0.01}],
             [sync("asp"), sync("tempo"), without("slow"), more_like(2, "pi")]),
    Question("phones", "asp", 0.7,
             [{"name": "phone", "count": 3, "step_seconds": 0.08, "jitter": 0.1, "link": "4g"}],
             [codec("int8"), link("phone", "wifi-5"), sync("local-sgd"), codec("f16")],
             {"sync": {"local-sgd": {"local_steps": 10}}}),
    Question("one slow link", "bsp", 0.7,
             [{"name": "box", "count": 3, "step_seconds": 0.07, "link": "wifi-5"},
              {"name": "far", "step_seconds": 0.05, "link": "4g-2014"}],
             [link("far", "wifi-5"), without("far"), codec("f16"), sync("ssp")]),
    Question("narrow servers", "asp", 0.7,
             [{"name": "box", "count": 5, "step_seconds": 0.06, "latency_seconds": 0.002}],
             [setting("servers.count", 2), codec("int8"), link("servers", "wifi-5"),
              sync("adsp")],
             {"servers": {"up_mbps": 40, "down_mbps": 40, "latency_seconds": 0.001}}),
    Question("commit rates", "adsp", 0.55,
             [{"name": "a", "step_seconds": 0.05, "jitter": 0.2, "latency_seconds": 0.02},
              {"name": "b", "step_seconds": 0.08, "jitter": 0.2, "latency_seconds": 0.02},
              {"name": "c", "step_seconds": 0.14, "jitter": 0.2, "latency_seconds": 0.02}],
             [sync("bsp"), setting("training.learning_rate", 0.1), without("c"),
              more_like(2, "b")]),
    Question("local steps", "local-sgd", 0.6,
             [{"name": "box", "count": 2, "step_seconds": 0.05, "link": "wifi-4"},
              {"name": "old", "count": 2, "step_seconds": 0.12, "link": "wifi-4"}],
             [setting("sync.local-sgd.local_steps", 4), without("old"), sync("asp"),
              setting("training.learning_rate", 0.1)],
             {"sync": {"local-sgd": {"local_steps": 20}}}),
    Question("catalog", "ssp", 0.7,
             [{"name": "pi", "count": 2, "device": "raspberry-pi-4", "link": "wifi-5"},
              {"name": "zero", "count": 2, "device": "raspberry-pi-zero-2w", "link": "wifi-4"}],
             [setting("training.batch", 64), setting("model.hidden", [128]), more_like(2, "pi"),
              without("zero")],
             {"model": {"hidden": [256]}, "sync": {"ssp": {"staleness": 3}}}),
    Question("late joiner", "bsp", 0.6,
             [{"name": "box", "count": 3, "step_seconds": 0.1, "latency_seconds": 0.01},
              {"name": "late", "step_seconds": 0.2, "latency_seconds": 0.01}],
             [without("late"), sync("asp"), setting("training.batch", 64), more_like(1, "box")],
             {"churn": [{"at": 4, "do": "join", "worker": "late"}],
              "dataset": {"partition": "dirichlet:1"}}),
    Question("changing link", "tempo", 0.6,
             [{"name": "box", "count": 2, "step_seconds": 0.08, "latency_seconds": 0.01},
              {"name": "far", "step_seconds": 0.06, "latency_seconds": 0.01,
               "trace": ["far.csv"]}],
             [sync("asp"), sync("adsp"), without("far"), codec("int8")]),
]
# Of the question whose link changes: Mb/s, every two seconds anew, in turns.
RATES = (16, 4, 2, 8)
TRACES = {"far.csv": "seconds,mbps\n" + "".join(
    f"{2 * i},{RATES[i % len(RATES)]}\n" for i in range(60))}


def toml(tables, path=""):
    """Scalars first, then tables; a list of tables is an array of tables."""
    text, below = "", ""
    for key, value in tables.items():
        name = f"{path}{key}"
        if isinstance(value, dict):
            below += f"[{name}]\n" + toml(value, name + ".")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            below += "".join(f"[[{name}]]\n" + toml(each) for each in value)
        else:
            text += f"{key} = {json.dumps(value)}\n"
    return text + below


class Bench:
    """Files, programs and the runs that go on at a time."""

    def __init__(self, options, place):
        self.rubato = options.rubato
        self.place = place
        for name, text in TRACES.items():
            with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        # Runs sleep nearly all of their time; who may, keeps other programs from delaying them.
        self.prefix = ["nice", "-n", "-15"] if os.geteuid() == 0 else []

    def said(self, *words, prefix=()):
        done = subprocess.run([*prefix, self.rubato, *words], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"truth: rubato {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def write(self, stem, cluster):
        with open(os.path.join(self.place, f"{stem}.toml"), "w", encoding="utf-8") as file:
            file.write(toml(cluster))

    def directory(self, stem, seed):
        return os.path.join(self.place, f"{stem}-{seed}")

    def really(self, stem, model, seed):
        """A future of the record of one real run. One that was kept is not made again."""
        file = os.path.join(self.place, f"{stem}.toml")
        out = self.directory(stem, seed)

        def run():
            kept = os.path.join(out, "results.json")
            if os.path.exists(kept):
                with open(kept, encoding="utf-8") as before:
                    return json.load(before)["runs"][0]
            return self.said("up", file, "--throttle", "--unchecked", "--sync", model, "--seed",
                             str(seed), "--json", "--quiet", "--missed-ok", "--overwrite", "--out",
                             out, prefix=self.prefix)["runs"][0]

        return self.pool.submit(run)


def seconds(run):
    reached = run["time_to_target_s"]
    return math.inf if reached is None else reached


def slack(one, other):
    """How far chance moves the ratio of two medians over the same seeds: half of 95 %."""
    if not all(map(math.isfinite, [*one, *other])):
        return math.inf
    dice = random.Random(1)
    ratios = []
    for _ in range(1000):
        drawn = dice.choices(range(len(one)), k=len(one))
        ratios.append(median(one[i] for i in drawn) / median(other[i] for i in drawn))
    ratios.sort()
    return (ratios[975] - ratios[25]) / 2


FIGURES = {"steps": lambda run: run["steps"], "commits": lambda run: run["commits"],
           "bytes": lambda run: run["bytes_up"] + run["bytes_down"]}


@dataclasses.dataclass
class Row:
    """One change: what was predicted of it, and its real runs, by seed."""
    name: str
    predicted: dict
    runs: list

    def __post_init__(self):
        said = self.predicted["times_s"]
        self.said = [math.inf if time is None else time for time in said]
        self.times = [seconds(run) for run in self.runs]
        self.said_time, self.time = median(self.said), median(self.times)
        self.slack = slack(self.said, self.times)
        # Of runs that the machine did not give the processor time that they needed.
        self.late = sum(any("late_s" in worker for worker in run["workers"]) for run in self.runs)

    @property
    def error(self):
        return 0 if self.said_time == self.time else self.said_time / self.time - 1

    def off(self, figure):
        return self.predicted[figure] / median(map(FIGURES[figure], self.runs)) - 1


def cells_of(question, number):
    """Of the cluster as it is, then of each change: name, cluster, stem of its files, model."""
    base = question.cluster()
    cells = [("as measured", base, f"{number}-base", question.sync)]
    for i, change in enumerate(question.changes):
        cluster = copy.deepcopy(base)
        if change.edit:
            change.edit(cluster)
        cells.append((change.name, cluster, f"{number}-{i}", change.sync or question.sync))
    return cells


def answer(bench, question, number, seed_counts):
    """A row for the cluster as it is, then one for each change."""
    cells = cells_of(question, number)
    for _, cluster, stem, _ in cells:
        bench.write(stem, cluster)
    runs = {cell[0]: [] for cell in cells}
    rows = {}
    for seeds in seed_counts:
        undecided = [cell for cell in cells
                     if cell[0] not in rows or rows[cell[0]].slack > MEDIAN_BAR]
        if not undecided:
            break
        under_way = [(cell[0], bench.really(*cell[2:], seed)) for cell in undecided
                     for seed in range(len(runs[cell[0]]) + 1, seeds + 1)]
        for name, future in under_way:
            runs[name].append(future.result())
        names = [cell[0] for cell in undecided]
        # The cluster as it is comes with any change.
        asked = [change for change in question.changes if change.name in names]
        words = [word for change in asked or question.changes[:1] for word in change.words]
        said = bench.said("whatif", bench.directory(cells[0][2], 1), "--json", "--quiet",
                          "--seeds", str(seeds), *words)
        for predicted in [said["base"], *said["changes"]]:
            if predicted["name"] in names:
                rows[predicted["name"]] = Row(predicted["name"], predicted, runs[predicted["name"]])
    return [rows[cell[0]] for cell in cells]


def first_right(rows):
    """Whether the change that is predicted to be the quickest is; and if not, whether by chance."""
    expected, really = (min(rows[1:], key=key)
                        for key in (lambda row: row.said_time, lambda row: row.time))
    count = min(len(expected.times), len(really.times))
    near = slack(expected.times[:count], really.times[:count])
    return expected is really, expected.time / really.time - 1 <= near, expected, really


def percent(part):
    return f"{100 * part:+.1f} %"


def print_answer(question, rows):
    print(f"\n{question.name}, loss {question.target}, {TITLES[question.sync]}")
    print(f"{'':32} {'whatif':>8} {'really':>8} {'off':>8} {'chance':>7} {'seeds':>5} {'late':>4}"
          f" {'steps':>8} {'commits':>8} {'bytes':>8}")
    for row in rows:
        print(f"{row.name:32} {row.said_time:6.2f} s {row.time:6.2f} s {percent(row.error):>8}"
              f" {100 * row.slack:5.1f} % {len(row.runs):5} {row.late:4} "
              + " ".join(f"{percent(row.off(figure)):>8}" for figure in FIGURES), flush=True)
    right, near, expected, really = first_right(rows)
    verdict = "right" if right else f"really {really.name}" + (", by chance" if near else "")
    print(f"first: {expected.name}: {verdict}", flush=True)


def summary(answers):
    errors = [abs(row.error) for rows in answers for row in rows[1:]]
    replays = [abs(rows[0].error) for rows in answers]
    firsts = [first_right(rows) for rows in answers]
    rows = [tools.value_row(f"{len(errors)} changes: median error of the time to the target",
                            100 * median(errors), "%", "<= 5 %"),
            tools.value_row("largest error", 100 * max(errors), "%", "<= 15 %"),
            tools.value_row(f"{len(answers)} runs replayed: median error of that time",
                            100 * median(replays), "%", "<= 5 %"),
            tools.value_row("largest error of these", 100 * max(replays), "%", "<= 5 %")]
    for figure in FIGURES:
        error = median(abs(row.off(figure)) for rows in answers for row in rows[1:])
        rows.append(tools.value_row(f"changes: median error of {figure}", 100 * error, "%"))
    rows.append(tools.value_row(
        f"of {len(answers)} rankings the first is first, or is so but for chance",
        sum(near for _, near, *_ in firsts), "", f">= {math.ceil(RIGHT_PART * len(answers))}"))
    rows.append(tools.value_row("the first is first", sum(right for right, *_ in firsts), ""))
    return rows


def quicker(question):
    """For a look whether all this still works: two changes, and a target that is soon reached."""
    return dataclasses.replace(question, target=1.2, changes=question.changes[:2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--rubato", default="build/bench/cli/rubato")
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", metavar="DIRECTORY")
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    questions = [(number, question) for number, question in enumerate(QUESTIONS)
                 if not options.only or question.name in options.only.split(",")]
    if options.quick:
        questions = [(number, quicker(question)) for number, question in questions[:1]]
    answers = []
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(options, options.keep or place)
        for number, question in questions:
            answers.append(answer(bench, question, number, (1,) if options.quick else SEEDS))
            print_answer(question, answers[-1])
    rows = summary(answers)
    for row in rows:
        print(f"{row['name']}: {row['value']:.3g} {row['unit']}")
    tools.write_rows(options.json, rows)


if __name__ == "__main__":
    main()
