#!/usr/bin/env python3
"""Draws the clusters of the fair comparison from a seed, and says what the runs on them found.

Usage: deploy/studies/fair.py draw DIR SEED CELLS [RUBATO]
           writes a study file for each number of workers to DIR
       deploy/studies/fair.py judge RESULTS...
           from the results.json of these studies: how far tempo, the other models at their best, and
           each fixed option are from the best of all others
       deploy/studies/fair.py finals DIR STUDY RESULTS
           from a study file and its results.json: writes a study file for each cell to DIR, with
           tempo and the ten options that were soonest there, to be run with seeds that did not
           choose them

A cell is a cluster, its data and a target. The targets follow from serial runs of one worker on all
data, at the best of four learning rates: an early one, and a tight one near the end of that run, each
3 % above its loss. docs/studies.md has the protocol.
"""
import collections
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
RATES = [0.05, 0.1, 0.2, 0.4]          # of the serial runs
STEPS = {4: (200, 1200), 32: (80, 480)}  # by mini-batch: where the early and the tight target lie
FINALISTS = 10
FINAL_SEED, FINAL_SEEDS = 1001, 4  # the first one of the finals, and how many
WORKERS = {2: 0.15, 3: 0.15, 8: 0.5, 18: 0.2}  # how often each number of workers is drawn
SERIAL = """
seed = {seed}
[[workers]]
name = "one"
step_seconds = 1
[model]
kind = "mlp"
hidden = [{hidden}]
[dataset]
kind = "fashion-mnist"
[training]
batch = {batch}
learning_rate = {rate}
[evaluation]
interval_seconds = {interval}
samples = 2000
average = true
[stop]
max_seconds = {steps}
"""

# A rate is in units of 1/m, that of a mean of all workers. `mean`: a rate of 1 is that of a mean.
CONTENDERS = [
    # name, sync model, options, rates, mean, with and without the average
    ("BSP", "bsp", {}, [1, 2, 4], False, True),
    ("ASP", "asp", {}, [1, 2, 4], False, True),
    ("SSP s=3", "ssp", {"sync.ssp.staleness": 3}, [1, 2, 4], False, False),
    ("DSSP", "dssp", {}, [2], False, False),
    ("Local SGD 5", "local-sgd", {"sync.local-sgd.local_steps": 5}, [1, 2], False, False),
    ("Local SGD 20", "local-sgd", {"sync.local-sgd.local_steps": 20}, [1, 2], False, False),
    ("ADACOMM", "adacomm", {}, [1], False, False),
    ("Semi-sync", "semi-sync", {}, [1], False, False),
    ("BatchTune-BSP", "batchtune-bsp", {}, [1, 2, 4], False, False),
    ("Sync-Switch", "sync-switch", {}, [1, 2], False, False),
    ("EASGD", "easgd", {}, [None], False, False),
    ("FedBuff", "fedbuff", {"sync.fedbuff.local_steps": 4}, [1, 2], True, False),
    ("FedAsync", "fedasync", {}, [None], False, False),
    ("FedNova", "fednova", {"sync.fednova.local_steps": 4}, [1, 2], False, False),
    ("DyLU 8", "dylu", {"sync.dylu.local_steps": 8}, [1, 2, 4], False, False),
    ("m-sync", "m-sync", {}, [1, 2], True, False),
    ("Rennala", "rennala", {}, [1, 2], True, False),
    ("Ringmaster", "ringmaster", {}, [1, 2, 4], False, False),
    ("Ringleader", "ringleader", {}, [0.5, 1], True, False),
    ("ACE", "ace", {}, [0.5, 1], True, False),
    ("MIFA", "mifa", {}, [1], True, False),
    ("Delay-adaptive", "delay-adaptive", {}, [2, 4], False, False),
    ("Hero SGD", "hero-sgd", {}, [1, 2, 4], True, False),
    ("ADSP", "adsp", {}, [1, 2], False, False),
    ("ADSP R=4", "adsp", {"sync.adsp.fixed_rate": 4}, [1, 2], False, False),
    ("ADSP overlapped", "adsp", {"sync.adsp.fixed_rate": 60, "sync.adsp.overlap": True},
     [1, 2, 4], False, True),
    ("ASP, server momentum 0.5", "asp",
     {"optimizer.kind": "momentum", "optimizer.momentum": 0.5}, [0.5, 1, 2], False, False),
    ("ASP, server Nesterov 0.9", "asp",
     {"optimizer.kind": "nesterov", "optimizer.momentum": 0.9}, [0.1, 0.2], False, False),
    ("BSP, server Nesterov 0.9", "bsp",
     {"optimizer.kind": "nesterov", "optimizer.momentum": 0.9}, [0.1, 0.3], False, False),
    ("FedAdam", "local-sgd",
     {"sync.local-sgd.local_steps": 5, "sync.local-sgd.mean": True, "optimizer.kind": "adam",
      "optimizer.epsilon": 0.001}, [0.003, 0.01], True, False),
    ("DiLoCo", "local-sgd",
     {"sync.local-sgd.local_steps": 20, "sync.local-sgd.mean": True, "optimizer.kind": "nesterov",
      "training.optimizer": "adamw", "training.learning_rate": 0.003}, [0.7], True, False),
    ("ASP, worker momentum", "asp",
     {"training.optimizer": "momentum", "training.momentum": 0.9}, [0.2, 0.5], False, False),
    ("ASP, AdamW", "asp",
     {"training.optimizer": "adamw", "training.learning_rate": 0.003}, [1, 2], False, False),
]


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:.6g}"


def flat(values, before=""):
    """Tables of a file that was read, as dotted keys."""
    found = {}
    for key, value in values.items():
        key = before + (f'"{key}"' if key == "*" else key)
        found.update(flat(value, key + ".") if isinstance(value, dict) else {key: value})
    return found


def pairs(values):
    return [f"{key} = {toml(value)}" for key, value in values.items()]


def table(values):
    return "{ " + ", ".join(pairs(values)) + " }"


def contenders(workers):
    text = '\n[[contenders]]\nname = "tempo"\nsync = "tempo"\n'
    for name, sync, options, rates, mean, both in CONTENDERS:
        search = {"evaluation.average": [False, True] if both else [True]}
        if rates != [None]:
            search["optimizer.global_rate"] = [rate / (1 if mean else workers) for rate in rates]
        text += f'\n[[contenders]]\nname = "{name}"\nsync = "{sync}"\n'
        if options:
            text += f"set = {table(options)}\n"
        text += f"search = {table(search)}\n"
    return text


def serial_losses(rubato, hidden, batch):
    """The losses of the early and the tight target."""
    best = None
    with tempfile.TemporaryDirectory() as folder:
        for rate in RATES:
            curves = []
            for seed in (901, 902):
                path = pathlib.Path(folder) / "serial.toml"
                steps = STEPS[batch][1]
                path.write_text(SERIAL.format(seed=seed, hidden=hidden, batch=batch, rate=rate,
                                              interval=steps / 120, steps=steps))
                out = pathlib.Path(folder) / f"{rate}-{seed}"
                subprocess.run([rubato, "compare", str(path), "--sync", "bsp", "--quiet",
                                "--missed-ok", "--out", str(out)], check=True,
                               stdout=subprocess.DEVNULL)
                with open(out / "curves.csv", newline="") as curve:
                    curves.append([(float(row["seconds"]), float(row["loss"]))
                                   for row in csv.DictReader(curve)])

            def loss_at(step):
                return statistics.mean(
                    statistics.mean(loss for at, loss in curve if step * 0.93 <= at <= step * 1.001)
                    for curve in curves)
            found = [loss_at(step) for step in STEPS[batch]]
            if best is None or found[1] < best[1]:
                best = found
    return [1.03 * loss for loss in best]


def cell(rng, workers, losses):
    hetero = rng.choice([1, 3.2, 6, 12])
    delay = rng.choice([0.1, 1, 5, 20])
    jitter = rng.choice([0.05, 0.05, 0.5])
    batch = rng.choice([4, 32])
    hidden = rng.choice([16, 32])
    rate = rng.choice([0.05, 0.1, 0.2])
    data = rng.choice(["iid", "labels", "slowest"])
    tight = rng.choice([False, True])
    if data == "labels":
        data = f"labels:{max(2, math.ceil(10 / workers))}"
    elif data == "slowest":
        data = "slowest:3" if hetero > 1 else "iid"
    serial = STEPS[batch][tight]
    longest = serial * (3 + delay / 4)
    name = (f"{'tight' if tight else 'early'}, H {hetero:g}, commits of {delay:g} s, {data}, "
            f"batch {batch}, {hidden} hidden, rate {rate:g}, jitter {jitter:g}")
    return name, {
        "heterogeneity": hetero, "servers.delay_seconds": delay, 'workers."*".jitter': jitter,
        "training.batch": batch, "model.hidden": [hidden], "training.learning_rate": rate,
        "dataset.partition": data, "stop.target_loss": losses[hidden, batch][tight],
        "stop.max_seconds": round(longest), "evaluation.interval_seconds": round(serial / 50, 2)}


def draw(folder, seed, cells, rubato):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    losses = {(hidden, batch): serial_losses(rubato, hidden, batch)
              for hidden in (16, 32) for batch in STEPS}
    rng = random.Random(seed)
    kinds = [*WORKERS, "churn"]
    weights = [*WORKERS.values(), 0.1]
    drawn = collections.defaultdict(dict)
    while sum(map(len, drawn.values())) < cells:
        kind = rng.choices(kinds, weights)[0]
        name, values = cell(rng, 8 if kind == "churn" else kind, losses)
        drawn[kind][name] = values
    for kind, cases in drawn.items():
        workers = 8 if kind == "churn" else kind
        file = "churn" if kind == "churn" else f"workers-{workers}"
        text = f"# Drawn by deploy/studies/fair.py from the seed {seed}; docs/studies.md says how.\n\n"
        text += 'question = "Is there a model that nobody has to choose and set?"\n'
        cluster = HERE / "clusters" / ("eight-churn.toml" if kind == "churn" else "eight.toml")
        text += f'cluster = "{os.path.relpath(cluster, folder)}"\n'
        text += 'x = "case"\nseeds = 2\n'
        if workers != 8:
            text += f"\n[set]\nworker_count = {workers}\n"
        for name, values in cases.items():
            text += f'\n[[cases]]\nname = "{name}"\nset = {table(values)}\n'
        (folder / f"{file}.toml").write_text(text + contenders(workers))
        print(f"{folder / file}.toml: {len(cases)} cells")


def finals(folder, study, results):
    folder, study = pathlib.Path(folder), pathlib.Path(study)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = tomllib.loads(study.read_text())
    cluster = os.path.relpath((study.parent / drawn["cluster"]).resolve(), folder.resolve())
    own = {each["name"]: flat(each.get("set", {})) for each in drawn["contenders"]}
    found = json.loads(pathlib.Path(results).read_text())
    named = {each["name"]: each for each in found["contenders"]}
    settings = {}  # of each option
    for run in found["runs"]:
        choice = {key: value == "true" if key == "evaluation.average" else value
                  for key, value in (run.get("choice") or {}).items()}
        option = option_of(named[run["contender"]], run.get("choice") or {})
        settings[option] = run["sync"], {**own[run["contender"]], **choice}
    cells, _ = cells_of(results)
    for number, case in enumerate(drawn["cases"], 1):
        times, _ = cells[case["name"]]
        best = sorted((each for each in times if each != "tempo"), key=times.get)[:FINALISTS]
        fixed = {**flat(drawn.get("set", {})), "seed": FINAL_SEED}
        text = f'question = {toml(drawn["question"])}\ncluster = {toml(cluster)}\n'
        text += "\n".join(['x = "case"', f"seeds = {FINAL_SEEDS}", "", "[set]", *pairs(fixed), ""])
        text += f'\n[[cases]]\nname = {toml(case["name"])}\nset = {table(flat(case["set"]))}\n'
        for option in ["tempo", *best]:
            sync, values = settings[option]
            text += f"\n[[contenders]]\nname = {toml(option)}\nsync = {toml(sync)}\n"
            text += f"set = {table(values)}\n" if values else ""
        path = folder / f"{study.stem}-{number}.toml"
        path.write_text(text)
        print(path)


def typical(times, longest):
    """The geometric mean over seeds; a run that does not arrive counts as twice the longest."""
    logs = [math.log(2 * longest if time is None else time) for time in times]
    return math.exp(statistics.mean(logs))


def option_of(contender, choice):
    """What it is called on clusters of any size: the rate in units of 1/m."""
    words = [contender["name"]]
    known = next((each for each in CONTENDERS if each[0] == contender["name"]), None)
    rate = choice.get("optimizer.global_rate")
    if rate is not None:
        words.append(f'{known[3][contender["search"]["optimizer.global_rate"].index(rate)]:g}/m')
    if choice.get("evaluation.average") == "true":
        words.append("average")
    return " ".join(words)


def cells_of(path):
    """{case: {option: typical time}} of a results.json, and how many runs of tempo diverged."""
    results = json.loads(pathlib.Path(path).read_text())
    contenders = {each["name"]: each for each in results["contenders"]}
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    longest = collections.defaultdict(float)
    diverged = 0
    for run in results["runs"]:
        case = run["point"]["case"]
        option = option_of(contenders[run["contender"]], run.get("choice") or {})
        times[case][option].append(run["time_to_target_s"])
        longest[case] = max(longest[case], run["seconds"])
        diverged += run["diverged"] and run["sync"] == "tempo"
    return {case: ({option: typical(each, longest[case]) for option, each in options.items()},
                   longest[case]) for case, options in times.items()}, diverged


def share(ratios):
    return (f"{sum(each <= 1.1 for each in ratios):4} of {len(ratios)}"
            f"  {math.exp(statistics.mean(map(math.log, ratios))):5.2f}  {max(ratios):6.2f}")


def judge(paths):
    cells, diverged = {}, 0
    for path in paths:
        found, more = cells_of(path)
        diverged += more
        cells.update({(pathlib.Path(path).parent.name, case): cell for case, cell in found.items()})
    best, reached = {}, {}
    for name, (options, longest) in cells.items():
        others = {option: time for option, time in options.items() if option != "tempo"}
        best[name] = min(others, key=others.get)
        if min(options.values()) < longest:
            reached[name] = options
    print(f"{len(cells)} cells, {len(reached)} of them with an option that arrives with each seed\n")
    ratios = collections.defaultdict(list)
    for name, options in sorted(reached.items()):
        of_best = options[best[name]]
        print(f'{name[0]:<11}{name[1]:<86} tempo {options["tempo"] / of_best:5.2f} of {of_best:.0f} s,'
              f' {best[name]}')
        for option, time in options.items():
            ratios[option].append(time / (of_best if option == "tempo" else min(options.values())))
    print("\n                                     within 10 %   mean   worst   never or seldom there")

    def row(option):
        missed = sum(options.get(option, math.inf) >= cells[name][1]
                     for name, options in reached.items())
        print(f"{option:<36} {share(ratios[option])}  {missed:4}")
    row("tempo")
    print(f"tempo diverged in {diverged} runs; beside it the others, each against the best of all:")
    full = [option for option, each in ratios.items()
            if option != "tempo" and len(each) == len(reached)]
    for option in sorted(full, key=lambda each: -sum(x <= 1.1 for x in ratios[each]))[:12]:
        row(option)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["draw", folder, seed, cells, *rest] if len(rest) < 2:
            draw(folder, int(seed), int(cells), rest[0] if rest else "rubato")
        case ["finals", folder, study, results]:
            finals(folder, study, results)
        case ["judge", *paths] if paths:
            judge(paths)
        case _:
            sys.exit(__doc__)
