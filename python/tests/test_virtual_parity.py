"""The same mlp by a loop of one's own and by the built-in worker, on virtual time: equal curves."""

import csv

import numpy
import pytest

import rubato
from conftest import command, loops_need

loops_need("torch")

FILE = """
name = "parity"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
latency_seconds = 0.01
[[workers]]
name = "slow"
step_seconds = 0.3
[servers]
count = 2
[model]
{model}
[dataset]
{data}
[training]
batch = 16
{training}
[optimizer]
kind = "sgd"  # under tempo, auto is sgd for a loop of one's own alone
[sync.adsp]
check_period_seconds = 5
[evaluation]
interval_seconds = 1
[stop]
{stop}
"""
DATA = """kind = "csv"
path = "data.csv"
held_out_path = "data.csv"
features = 10
classes = 4
partition = "dirichlet:1"
"""
MODULE = '''
import numpy, torch, torch.nn.functional as F, rubato
from torch import nn

numbers = numpy.load("data.npz")
inputs, labels = torch.tensor(numbers["x"]), torch.tensor(numbers["y"])

def train():
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    rubato.load("first/model.safetensors", model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def evaluate():
        scores = model(inputs)
        right = (scores.argmax(1) == labels).float().mean().item()
        return F.cross_entropy(scores, labels).item(), right

    with rubato.Worker("own.toml", model, optimizer, evaluate=evaluate) as w:
        for x, y in w.batches((inputs, labels), 16):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A file of data, the same as it is after standardising, and a model to begin with."""
    place = tmp_path_factory.mktemp("parity")
    random = numpy.random.default_rng(3)
    y = numpy.arange(400) % 4
    x = random.normal(size=(400, 10))
    x[numpy.arange(400), y] += 2
    x = ((x - x.mean(0)) / x.std(0)).astype(numpy.float32)
    with open(place / "data.csv", "w") as file:
        for row, label in zip(x, y):
            file.write(",".join(f"{each:.9g}" for each in row) + f",{label}\n")
    numpy.savez(place / "data.npz", x=x, y=y)
    (place / "train.py").write_text(MODULE)
    built_in = 'kind = "mlp"\nhidden = [16]\n'
    rate = "learning_rate = 0.05"
    stop = "target_loss = 0.6\nmax_seconds = 600"
    (place / "first.toml").write_text(
        FILE.format(model=built_in, data=DATA, training=rate, stop="max_steps = 1")
    )
    command(place, "up", "first.toml", "--sync", "bsp", "--out", "first")
    start = 'start = "first/model.safetensors"'
    (place / "cpp.toml").write_text(
        FILE.format(model=built_in + start, data=DATA, training=rate, stop=stop)
    )
    own = 'kind = "own"\nmodule = "train.py"'
    (place / "own.toml").write_text(
        FILE.format(model=own, data='partition = "dirichlet:1"', training="", stop=stop)
    )
    return place


def curve(path, sync):
    with open(path) as file:
        return [{name: float(each[name]) for name in ("seconds", "steps", "commits", "loss")}
                for each in csv.DictReader(file) if each["sync"] == sync]


SYNC = "bsp", "adsp", "tempo"


def test_the_curves_are_the_same(place):
    for name in ("cpp", "own"):
        words = "--sync", ",".join(SYNC), "--save", "--out", name
        command(place, "compare", f"{name}.toml", *words)
    for sync in SYNC:
        theirs, mine = (curve(place / f"{name}/curves.csv", sync) for name in ("cpp", "own"))
        assert len(mine) > 5 and theirs[0]["loss"] > 1 and abs(len(mine) - len(theirs)) <= 1
        for one, other in zip(mine, theirs):
            assert [one[name] for name in ("seconds", "steps", "commits")] == [
                other[name] for name in ("seconds", "steps", "commits")
            ], sync
            assert one["loss"] == pytest.approx(other["loss"], abs=1e-5), sync
        # The files are of the best point of both, which is the same one.
        assert mine[-1]["steps"] >= 100
        ours, builtin = (list(rubato.load(place / f"{name}/{sync}-1/best.safetensors").values())
                         for name in ("own", "cpp"))  # fmt: skip
        assert [each.shape for each in ours] == [each.shape for each in builtin]
        apart = [abs(one - other).max() for one, other in zip(ours, builtin)]
        assert max(apart) < 1e-5, sync
