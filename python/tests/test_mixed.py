"""One cluster of loops in PyTorch and NumPy and of `rubato worker`, each in its own process."""

import json
import signal

import numpy
import pytest

import rubato
from conftest import CLASSES, DEADLINE, FEATURES, HIDDEN, Cluster, loops_need

loops_need("torch")

DATA = f"""[dataset]
kind = "csv"
path = "train.csv"
held_out_path = "test.csv"
features = {FEATURES}
classes = {CLASSES}
standardize = false
"""

NUMPY = """
numbers = numpy.loadtxt("train.csv", numpy.float32, delimiter=",")
data = numbers[:, :-1], numbers[:, -1].astype(int)
model = arrays()
with join(model) as w:
    for x, y in w.batches(data, BATCH):
        hidden = numpy.maximum(x @ model["w1"].T + model["b1"], 0)
        scores = hidden @ model["w2"].T + model["b2"]
        shares = numpy.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        loss = -numpy.log(shares[numpy.arange(len(y)), y]).mean()
        shares[numpy.arange(len(y)), y] -= 1
        shares *= RATE / len(y)
        back = shares @ model["w2"] * (hidden > 0)
        model["w2"] -= shares.T @ hidden
        model["b2"] -= shares.sum(0)
        model["w1"] -= back.T @ x
        model["b1"] -= back.sum(0)
        w.step(loss, len(y))
        if w.steps == 1: print("trains", flush=True)
        time.sleep(PAUSE)
print("over", w.over, w.commits)
"""

TORCH = """
import torch
import torch.nn.functional as F
from torch import nn
torch.set_num_threads(1)
numbers = torch.tensor(numpy.loadtxt("train.csv", numpy.float32, delimiter=","))
data = numbers[:, :-1], numbers[:, -1].long()
model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
with join(model, optimizer) as w:
    for x, y in w.batches(data, BATCH):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        w.step(loss, len(y))
        if w.steps == 1: print("trains", flush=True)
        time.sleep(PAUSE)
print("over", w.over, w.commits)
"""

SCRIPTS = {"torch": TORCH, "numpy-a": NUMPY, "numpy-b": NUMPY}
WORKERS = [*SCRIPTS, "command"]


def write_data(path, seed, samples):
    random = numpy.random.default_rng(seed)
    y = numpy.arange(samples) % CLASSES
    x = random.normal(size=(samples, FEATURES)).astype(numpy.float32)
    x[numpy.arange(samples), y] += 4
    numpy.savetxt(path, numpy.column_stack([x, y]), ["%.9g"] * FEATURES + ["%d"], ",")


@pytest.fixture
def start():
    clusters = []

    def begin(place, sync, rate, pause):
        """Returns: the cluster and each worker's process."""
        place.mkdir(exist_ok=True)
        write_data(place / "train.csv", 1, 400)
        write_data(place / "test.csv", 2, 200)
        cluster = Cluster(place)
        clusters.append(cluster)
        cluster.start(
            sync,
            workers=WORKERS,
            stop="target_accuracy = 0.9\nmax_seconds = 100",
            training=f"learning_rate = {rate}",
            data=DATA,
        )
        head = f"RATE, PAUSE = {rate}, {pause}\n"
        scripts = {name: cluster.script(head + SCRIPTS[name], name=name) for name in SCRIPTS}
        return cluster, scripts, cluster.command("command")

    yield begin
    for each in clusters:
        each.stop()


def reached(cluster):
    """The run has ended by its target. Returns: its workers by name."""
    assert cluster.ends() == 0, cluster.log
    run = json.loads((cluster.place / "out/results.json").read_text())["runs"][0]
    assert run["time_to_target_s"] is not None and run["final_accuracy"] > 0.8
    return {each["id"]: each for each in run["workers"]}


@pytest.mark.parametrize("sync", ["bsp", "adsp"])
def test_they_reach_the_target(tmp_path, start, sync):
    cluster, scripts, command = start(tmp_path, sync, rate=0.05, pause=0.001)
    workers = reached(cluster)
    assert sorted(workers) == sorted(WORKERS)
    assert all(each["commits"] > 0 for each in workers.values())
    for script in scripts.values():
        assert script.ends() == 0 and "over True" in script.out
    assert command.wait(DEADLINE) == 0
    model = rubato.load(tmp_path / "out/model.safetensors")
    assert sorted(each.shape for each in model.values()) == [
        (CLASSES,), (CLASSES, HIDDEN), (HIDDEN,), (HIDDEN, FEATURES),
    ]


def test_a_kill_of_any_stops_nobody(tmp_path, start):
    # A lower rate and longer steps than above: the kills come long before the target.
    cluster, scripts, command = start(tmp_path, "bsp", rate=0.003, pause=0.005)
    for script in scripts.values():
        script.says("trains")
    scripts.pop("torch").process.kill()
    command.kill()
    workers = reached(cluster)
    before = []
    for victim in "torch", "command":
        assert f"'{victim}' lost: no heartbeat" in cluster.log
        before.append(workers.pop(victim)["commits"])
    assert all(each["commits"] > max(before) + 20 for each in workers.values()), workers
    for script in scripts.values():
        assert script.ends() == 0 and "over True" in script.out
    assert command.wait(DEADLINE) == -signal.SIGKILL
