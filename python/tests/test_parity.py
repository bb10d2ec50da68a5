"""The same mlp by a loop of one's own and by the C++ worker: the same file in the end."""

import json
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rubato  # noqa: E402
from conftest import COMMAND, Cluster, in_threads  # noqa: E402

ROUNDS = 100

FILE = """
name = "parity"
[[workers]]
name = "w"
count = 2
step_seconds = 0.001
[servers]
count = 1
[model]
kind = "mlp"
hidden = [16]
{start}
[dataset]
kind = "csv"
path = "data.csv"
held_out_path = "data.csv"
features = 10
classes = 4
partition = "dirichlet:1"
[training]
batch = 16
learning_rate = 0.05
[evaluation]
interval_seconds = 1000
[stop]
max_steps = {steps}
"""


def data():
    random = numpy.random.default_rng(3)
    y = numpy.arange(400) % 4
    x = random.normal(size=(400, 10)).astype(numpy.float32)
    x[numpy.arange(400), y] += 3
    return x, y


def command(place, *words):
    subprocess.run([COMMAND, *words], cwd=place, check=True, capture_output=True, timeout=100)


def flat(tensors):
    return torch.cat([each.detach().flatten() for each in tensors])


def test_a_loop_of_pytorch_and_the_built_in_mlp_agree(tmp_path):
    x, y = data()
    with open(tmp_path / "data.csv", "w") as file:
        for row, label in zip(x, y):
            file.write(",".join(f"{each:.9g}" for each in row) + f",{label}\n")
    command(tmp_path, "data", "data.csv", "--schema", "schema.json")
    columns = json.loads((tmp_path / "schema.json").read_text())["columns"]
    scaling = [each["scaling"] for each in columns]
    inputs = torch.tensor([[(v - m) * f for v, (m, f) in zip(row, scaling)] for row in x.tolist()])
    labels = torch.tensor(y)

    # One step of the built-in model, so that both begin with the same file.
    (tmp_path / "first.toml").write_text(FILE.format(start="", steps=2))
    command(tmp_path, "up", "first.toml", "--sync", "bsp", "--out", "first")
    start = 'start = "first/model.safetensors"'
    (tmp_path / "cluster.toml").write_text(FILE.format(start=start, steps=2 * ROUNDS))
    command(tmp_path, "up", "cluster.toml", "--sync", "bsp", "--out", "ours")
    ours = json.loads((tmp_path / "ours/results.json").read_text())["runs"][0]
    # On a busy machine the end of the run reaches the workers some rounds later.
    assert ours["commits"] >= 2 * ROUNDS
    (tmp_path / "cluster.toml").write_text(FILE.format(start=start, steps=2 * (ROUNDS + 20)))

    def loop(i):
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        states, steps = [], []
        with cluster.worker(model, optimizer, name=f"w-{i}") as w:
            for a, b in w.batches((inputs, labels), 16):
                states.append(flat(model.parameters()))
                loss = F.cross_entropy(model(a), b)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps.append(flat(model.parameters()) - states[-1])
                w.step(loss, len(a))
        return states, steps

    cluster = Cluster(tmp_path)
    try:
        cluster.start("bsp", again=True)
        (one, its), (other, others) = in_threads(lambda: loop(0), lambda: loop(1))
        assert cluster.ends() == 0
    finally:
        cluster.stop()
    assert min(len(one), len(other)) >= ROUNDS + 20 and abs(len(one) - len(other)) <= 1
    for mine, yours in zip(one, other):
        assert torch.equal(mine, yours)

    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    rubato.load(tmp_path / "first/model.safetensors", model)
    assert torch.equal(one[0], flat(model.parameters()))
    # A round applies the mean of both steps. The file of a run is that of its end: of a round, or
    # of one step of the next, if its worker came before the end and the other one did not.
    for before, after, mine, yours in zip(one, one[1:], its, others):
        assert torch.allclose(after, before + (mine + yours) / 2, atol=1e-6)
    last = list(zip(one, its, others))[ROUNDS - 2 :]
    alone = [state + step * part for state, *both in last for step in both for part in (0.5, 1)]
    rubato.load(tmp_path / "ours/model.safetensors", model)
    theirs = flat(model.parameters())
    rubato.load(tmp_path / "out/model.safetensors", model)
    apart = [(each - theirs).abs().max() for each in [*one, flat(model.parameters()), *alone]]
    assert min(apart[ROUNDS - 2 :]) < 1e-5
    assert min(apart[: ROUNDS - 10]) > 1e-3
