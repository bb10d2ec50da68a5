#!/usr/bin/env python3
"""What a user's own training loop in Python pays: calls of rubato.Worker beside the bare loop, the
pace of its other threads, commits beside the worker in C++ and beside gloo's all_reduce, memory,
import, sizes, and the virtual cluster beside the bare gradients.

Usage: bench/own_loop.py [--quick] [--json FILE]   after bench/run.sh has built the programs
Needs PyTorch (python3-torch); without it the rows say so.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import tools

try:
    import torch  # once, for all virtual workers
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/bench"
CLUSTER = """
[servers]
count = {servers}
[[workers]]
name = "node"
count = {workers}
{step}
[model]
kind = "own"
module = "{module}"
[training]
batch = 32
[sync.local-sgd]
local_steps = {local_steps}
[sync.adsp]
{adsp}
[evaluation]
interval_seconds = 3600
[stop]
max_seconds = {seconds}
"""
UNEQUAL = """
[[workers]]
name = "fast"
count = 2
step_seconds = 0.04
up_mbps = 10
down_mbps = 10
latency_seconds = 0.01
[[workers]]
name = "slow"
step_seconds = 0.16
up_mbps = 2.5
down_mbps = 2.5
latency_seconds = 0.04
[model]
kind = "own"
module = "{module}"
[training]
batch = 16
[sync.adsp]
check_period_seconds = 4
[evaluation]
interval_seconds = 0.25
[stop]
target_loss = 0.25
max_seconds = 120
"""
BUILT_IN = """
[[workers]]
name = "node"
count = {workers}
[model]
kind = "mlp"
hidden = [{hidden}]
[dataset]
kind = "blobs"
features = 1023
samples = 2000
[training]
batch = 1
[evaluation]
interval_seconds = 3600
[stop]
max_seconds = {seconds}
"""
MIB = 1 << 20
TIMED = "step_seconds = 0.005"  # without it a step takes as long as it takes here


def environment(**more):
    path = str(ROOT / "python")
    return dict(os.environ, PYTHONPATH=path, RUBATO_LIBRARY=str(BUILD / "abi/librubato.so"),
                **{name: str(value) for name, value in more.items()})


def without_shared_memory():
    """For children: no file may be as large as a link in /dev/shm, so nodes use TCP."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))


def on_one_core():
    """For children: they take turns at it."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def rubato(folder, *words, before=None, **more):
    """before  what the child does first"""
    done = subprocess.run([str(BUILD / "cli/rubato"), *map(str, words)], cwd=folder, check=False,
                          capture_output=True, text=True, env=environment(**more),
                          preexec_fn=before)
    if done.returncode not in (0, 1):  # 1: the target was not reached
        sys.exit(f"own_loop: rubato {words[0]}: {done.stdout}{done.stderr}")


def latest_runs(folder):
    text = (pathlib.Path(folder) / "out/latest/results.json").read_text(encoding="utf-8")
    return json.loads(text)["runs"]


def cluster(folder, name="own.toml", **values):
    values = {"workers": 1, "servers": 1, "local_steps": 1, "seconds": 600, "adsp": "", "step": "",
              "module": pathlib.Path(__file__).resolve(), **values}
    template = BUILT_IN if "hidden" in values else CLUSTER
    (pathlib.Path(folder) / name).write_text(template.format(**values), encoding="utf-8")


def row(name, value, unit, bar, peer="", peer_value=None):
    ratio = value / peer_value if peer_value else None
    return {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value,
            "ratio": ratio, "bar": bar}


# --- the loops: train() runs in the workers ------------------------------------------------------

def train():
    getattr(sys.modules[__name__], "loop_" + os.environ["OWN_LOOP"])()


def told(**figures):
    """Leaves the figures of this worker for heard()."""
    with open(f"{os.environ['OWN_OUT']}.{os.environ['RUBATO_NAME']}", "w",
              encoding="utf-8") as file:
        json.dump(figures, file)


def heard(out, worker="node-0"):
    for name in (worker, worker.rsplit("-", 1)[0]):  # a group of one has no number
        path = pathlib.Path(f"{out}.{name}")
        if path.exists():
            text = path.read_text(encoding="utf-8")
            path.unlink()  # the next run has its own
            return json.loads(text)
    sys.exit(f"own_loop: worker {worker} has left no figures")


def some_model(hidden=1024):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch.nn.Sequential(torch.nn.Linear(256, hidden), torch.nn.ReLU(),
                               torch.nn.Linear(hidden, 10))


def step_of_5_ms(repeats):
    """A model, its optimizer, and a function that makes a step. `repeats`: that last 5 ms here."""
    model = some_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(32, 256), torch.randint(10, (32,))
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        for _ in range(repeats):
            loss = loss_of(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    return model, optimizer, step


def repeats_of_5_ms():
    _, _, step = step_of_5_ms(1)
    seconds = []
    for _ in range(60):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return max(1, round(0.005 / statistics.median(seconds)))


def loop_calls():
    """Calls with nothing due, alone and after a step of 5 ms."""
    import rubato
    model, optimizer, step = step_of_5_ms(int(os.environ["OWN_REPEATS"]))
    calls = int(os.environ["OWN_CALLS"])
    with rubato.Worker("own.toml", model, optimizer) as worker:
        step()
        worker.step(1.0, 32)  # joins, and waits for the others
        alone = []
        for _ in range(9):
            began = time.process_time()
            for _ in range(calls):
                worker.step(0.5, 32)
            alone.append((time.process_time() - began) / calls)
        tensor = torch.tensor(0.5)
        of_tensor = []
        for _ in range(9):
            began = time.process_time()
            for _ in range(calls):
                worker.step(tensor, 32)
            of_tensor.append((time.process_time() - began) / calls)
        bare, call = [], []
        for _ in range(max(100, calls // 20)):
            began = time.perf_counter()
            loss = step()
            between = time.perf_counter()
            worker.step(loss, 32)
            call.append(time.perf_counter() - between)
            bare.append(between - began)
    after = []  # the run is over for this worker
    for _ in range(9):
        began = time.process_time()
        for _ in range(calls):
            worker.step(0.5, 32)
        after.append((time.process_time() - began) / calls)
    told(alone=statistics.median(alone), tensor=statistics.median(of_tensor),
         share=100 * statistics.median(call) / statistics.median(bare),
         after=statistics.median(after))


def loop_waits():
    """How fast another thread counts while w.step() waits for a slow worker."""
    import numpy
    import rubato
    model = {"w": numpy.zeros(10, dtype=numpy.float32)}
    slow = rubato.this("own.toml").index == 1
    ends = threading.Event()

    def pace():
        counted, began = 0, time.perf_counter()
        while not ends.is_set():
            counted += 1
        return counted / (time.perf_counter() - began)

    def paced_beside(wait):
        ends.clear()
        paces = []
        thread = threading.Thread(target=lambda: paces.append(pace()))
        thread.start()
        wait()
        ends.set()
        thread.join()
        return paces[0]

    with rubato.Worker("own.toml", model) as worker:
        ratios = []
        for _ in range(int(os.environ["OWN_ROUNDS"])):
            if slow:
                time.sleep(1)
                worker.step(0.5, 1)
                continue
            alone = paced_beside(lambda: time.sleep(0.5))
            ratios.append(paced_beside(lambda: worker.step(0.5, 1)) / alone)
        if not slow:
            told(pace=100 * statistics.median(ratios))


def loop_commits():
    """Each step commits: the seconds of w.step()."""
    import numpy
    import rubato
    floats = int(os.environ["OWN_FLOATS"])
    model = {"w": numpy.zeros(floats, dtype=numpy.float32)}
    seconds = []
    with rubato.Worker("own.toml", model) as worker:
        for _ in range(int(os.environ["OWN_COMMITS"])):
            began = time.perf_counter()
            if not worker.step(0.5, 1):
                break
            seconds.append(time.perf_counter() - began)
        told(seconds=statistics.median(seconds[1:]))


def resident():
    """Bytes of this process that no other has."""
    text = pathlib.Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    return 1024 * sum(int(kib) for kib in re.findall(r"^Private_\w+: +(\d+)", text, re.MULTILINE))


def loop_memory():
    """What a worker keeps beside the model."""
    import numpy
    import rubato
    floats = 64 * MIB // 4
    model = {"w": numpy.zeros(floats, dtype=numpy.float32)}
    model["w"][:] = 0.5
    before = resident()
    most = 0
    with rubato.Worker("own.toml", model) as worker:
        for _ in range(40):
            worker.step(0.5, 1)
            time.sleep(0.02)
            most = max(most, resident())
        told(models=(most - before) / (4 * floats))


def loop_virtual():
    """Steps of 5 ms of this machine, on virtual time."""
    began = time.time()
    import rubato
    model, optimizer, step = step_of_5_ms(int(os.environ["OWN_REPEATS"]))
    with rubato.Worker("own.toml", model, optimizer) as worker:
        while worker.step(step(), 32):
            if worker.steps == 3:
                told(began=began, private=resident() / MIB)


def loop_target():
    """Trains to the target, with a measurement on held-out samples."""
    import rubato
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(4000) % 4
    inputs = torch.randn(4, 20, generator=random)[labels] * 2
    inputs += 2 * torch.randn(4000, 20, generator=random)
    torch.manual_seed(rubato.this("own.toml").seed)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.004)
    loss_of = torch.nn.CrossEntropyLoss()

    def evaluate():
        return loss_of(model(inputs[3000:]), labels[3000:]).item()

    with rubato.Worker("own.toml", model, optimizer, evaluate=evaluate) as worker:
        for some, right in worker.batches((inputs[:3000], labels[:3000]), 16):
            loss = loss_of(model(some), right)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            worker.step(loss, len(some))


# --- the rows ------------------------------------------------------------------------------------

def calls(folder, quick, repeats):
    cluster(folder, local_steps=1_000_000_000)
    rubato(folder, "up", "own.toml", "--sync", "local-sgd", OWN_LOOP="calls", OWN_OUT="calls",
           OWN_REPEATS=repeats, OWN_CALLS=2000 if quick else 20000)
    figures = heard(f"{folder}/calls")
    return [row("w.step(float), nothing due", 1e6 * figures["alone"], "us", "< 5"),
            row("w.step(tensor), nothing due", 1e6 * figures["tensor"], "us", "< 5"),
            row("w.step(tensor) after a step of 5 ms", figures["share"], "%", "< 0.5 %"),
            row("w.step(float) after the run", 1e6 * figures["after"], "us", "< 1")]


def waits(folder, quick, _):
    cluster(folder, workers=2)
    rubato(folder, "up", "own.toml", "--sync", "bsp", OWN_LOOP="waits", OWN_OUT="waits",
           OWN_ROUNDS=2 if quick else 8)
    pace = heard(f"{folder}/waits")["pace"]
    return [row("pace of another thread while w.step() waits", pace, "%", ">= 90 %")]


def gloo(rank, port, floats, rounds, queue):
    import torch.distributed as distributed
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                                   world_size=2)
    values = torch.zeros(floats)
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        distributed.all_reduce(values)
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        queue.put(statistics.median(seconds[1:]))
    distributed.destroy_process_group()


def all_reduce(floats, rounds):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    [port] = tools.free_ports(1)
    both = [context.Process(target=gloo, args=(rank, port, floats, rounds, queue))
            for rank in range(2)]
    for each in both:
        each.start()
    seconds = queue.get(timeout=300)
    for each in both:
        each.join()
    return seconds


WAYS = {"TCP": without_shared_memory, "shared memory": None}  # and what a child does for it


def python_commit(folder, sync, floats, rounds, way):
    """Seconds that w.step() takes where each step commits."""
    rubato(folder, "up", "own.toml", "--sync", sync, before=WAYS[way], OWN_LOOP="commits",
           OWN_OUT="commits", OWN_FLOATS=floats, OWN_COMMITS=rounds)
    return heard(f"{folder}/commits")["seconds"]


def cpp_commit(folder, hidden, seconds, way):
    """What a commit keeps the worker in C++ from its steps: all of its run but the steps. As in
    w.step(), the update is taken in it, and the reply loaded."""
    cluster(folder, "cpp.toml", hidden=hidden, seconds=seconds)
    rubato(folder, "up", "cpp.toml", "--sync", "asp", before=WAYS[way])
    [run] = latest_runs(folder)
    [worker] = run["workers"]
    return (run["seconds"] - worker["compute_s"]) / worker["commits"]


def commits(folder, quick, _):
    rows = []
    for mib, hidden, rounds, seconds in ((16, 4056, 60, 8), (200, 50705, 12, 30))[:1 if quick else 2]:
        floats = 1034 * hidden + 10
        for way, bar in (("TCP", "<= 1.10"), ("shared memory", "<= 1.15")):
            cluster(folder)
            ours, peer = [], []
            for _ in range(1 if quick else 3):  # in turns
                ours.append(python_commit(folder, "asp", floats, rounds, way))
                peer.append(cpp_commit(folder, hidden, seconds, way))
            rows.append(row(f"commit of {mib} MiB, {way}", 1000 * statistics.median(ours), "ms",
                            bar, "worker in C++", 1000 * statistics.median(peer)))
        for way in WAYS:
            ours, peer = [], []
            for servers in (1, 2) * (1 if quick else 3):
                cluster(folder, workers=2, servers=servers)
                ours.append(1 / python_commit(folder, "bsp", floats, rounds, way))
                peer.append(1 / all_reduce(floats, rounds))
            for i, servers in enumerate(("1 server", "2 servers")):
                rows.append(row(f"rounds of 2 workers, {servers}, {mib} MiB, {way}",
                                statistics.median(ours[i::2]), "1/s", ">= 1.5",
                                "gloo's all_reduce over TCP", statistics.median(peer)))
    return rows


def memory(folder, _, __):
    rows = []
    for what, adsp, bar in (("waiting", "", "<= 1.1"), ("overlapped", "overlap = true", "<= 2.1")):
        cluster(folder, workers=2, adsp=adsp + "\ncheck_period_seconds = 1\nfixed_rate = 4")
        rubato(folder, "up", "own.toml", "--sync", "adsp", before=without_shared_memory,
               OWN_LOOP="memory", OWN_OUT="memory")
        # One of them tells the initial values.
        models = max(heard(f"{folder}/memory", f"node-{i}")["models"] for i in range(2))
        rows.append(row(f"memory beside a model of 64 MiB, commits {what}", models, "models", bar))
    return rows


def imports(_, quick, __):
    def seconds(code):
        began = time.perf_counter()
        subprocess.run(["/usr/bin/python3", "-c", code], check=True, env=environment())
        return time.perf_counter() - began

    differences = [seconds("import rubato") - seconds("pass") for _ in range(5 if quick else 30)]
    return [row("import rubato", 1000 * statistics.median(differences), "ms", "<= 50")]


def sizes(folder, _, __):
    stripped = f"{folder}/stripped"
    rows = []
    for name, path, bar in (("librubato.so", "abi/librubato.so", "<= 3"),
                            ("rubato", "cli/rubato", "< 10")):
        subprocess.run(["strip", "-o", stripped, BUILD / path], check=True)
        rows.append(row(f"{name}, stripped", os.path.getsize(stripped) / 1e6, "MB", bar))
    symbols = subprocess.run(["nm", "-D", "--defined-only", BUILD / "abi/librubato.so"],
                             check=True, capture_output=True, text=True).stdout
    rows.append(row("exported symbols of librubato.so", symbols.count(" T "), "", "<= 20"))
    return rows


def bare_steps(models, steps, repeats):
    """Seconds of a process that makes these steps of 5 ms and nothing else."""
    code = f"import own_loop, itertools\n" \
           f"loops = [own_loop.step_of_5_ms({repeats})[2] for _ in range({models})]\n" \
           f"for step in itertools.islice(itertools.cycle(loops), {steps}): step()"
    began = time.perf_counter()
    subprocess.run(["/usr/bin/python3", "-c", code], check=True, cwd=ROOT / "bench",
                   env=environment(OMP_NUM_THREADS=1), preexec_fn=on_one_core)
    return time.perf_counter() - began


def virtual(folder, quick, repeats):
    """The virtual cluster on one core, beside the same steps in one process there."""
    seconds = 1 if quick else 4
    rows = []
    for sync, commits_after in (("local-sgd", "20 steps"), ("asp", "each step")):
        cluster(folder, workers=3, seconds=seconds, step=TIMED, local_steps=20)
        ours, one, three = [], [], []
        for _ in range(1 if quick else 3):
            began = time.perf_counter()
            rubato(folder, "compare", "own.toml", "--sync", sync, "--threads", 1,
                   before=on_one_core, OWN_LOOP="virtual", OWN_OUT="virtual", OWN_REPEATS=repeats)
            ours.append(time.perf_counter() - began)
            steps = latest_runs(folder)[0]["steps"]
            one.append(bare_steps(1, steps, repeats))
            three.append(bare_steps(3, steps, repeats))
        what = f"virtual cluster, {steps:,} steps of 5 ms, a commit after {commits_after}"
        for peer, seconds_of_peer in (("one bare loop", one), ("three bare loops in turns", three)):
            rows.append(row(what, statistics.median(ours), "s", "<= 1.05", peer,
                            statistics.median(seconds_of_peer)))
    cluster(folder, workers=18, seconds=0.05, step=TIMED)
    rubato(folder, "compare", "own.toml", "--sync", "adsp", OWN_LOOP="virtual", OWN_OUT="forks",
           OWN_REPEATS=repeats)
    told_by = [heard(f"{folder}/forks", f"node-{i}") for i in range(18)]
    begins = [each["began"] for each in told_by]
    return rows + [row("fork of 18 workers", max(begins) - min(begins), "s", "< 1"),
                   row("private memory of a forked worker",
                       statistics.median(each["private"] for each in told_by), "MiB", "< 30")]


def agreement(folder, quick, _):
    """The time to the target on virtual time, beside real processes with throttled links."""
    (pathlib.Path(folder) / "own.toml").write_text(
        UNEQUAL.format(module=pathlib.Path(__file__).resolve()), encoding="utf-8")

    def seconds(command, sync, *words):
        rubato(folder, command, "own.toml", "--sync", sync, *words, OWN_LOOP="target")
        return [run["time_to_target_s"] for run in latest_runs(folder)]

    rows = []
    seeds = 1 if quick else 5
    for sync in ("bsp", "asp", "adsp", "tempo"):
        ours = seconds("compare", sync, "--seeds", seeds)
        real = sum((seconds("up", sync, "--throttle", "--seed", 1 + i) for i in range(seeds)), [])
        virtual, throttled = statistics.median(ours), statistics.median(real)
        rows.append(row(f"{sync}: time to the target on virtual time, {seeds} seeds", virtual, "s",
                        "", "up --throttle", throttled))
        rows.append(row(f"{sync}: the difference of both", 100 * abs(virtual / throttled - 1), "%",
                        "<= 5 %"))
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--json")
    arguments.add_argument("part", nargs="*", choices=[[], *PARTS], help=", ".join(PARTS))
    options = arguments.parse_args()
    tools.forget_pinned_kernels()
    if torch is None:
        absent = "python3-torch is not installed: deploy/install.sh python"
        rows = [{**row("own loops in PyTorch", None, "", ""), "absent": absent}]
    else:
        repeats = repeats_of_5_ms()
        rows = []
        for name in options.part or PARTS:
            with tempfile.TemporaryDirectory() as folder:
                for each in PARTS[name](folder, options.quick, repeats):
                    beside = ""
                    if each["peer"]:
                        beside = f', {each["peer"]} {each["peer_value"]:.4g}: {each["ratio"]:.3f}'
                    print(f'{each["name"]}: {each["value"]:.4g} {each["unit"]}{beside}', flush=True)
                    rows.append(each)
    tools.write_rows(options.json, rows)


PARTS = {"calls": calls, "waits": waits, "commits": commits, "memory": memory, "imports": imports,
         "sizes": sizes, "virtual": virtual, "agreement": agreement}

if __name__ == "__main__":
    if "OWN_LOOP" in os.environ:
        train()
    else:
        main()
