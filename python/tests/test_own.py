"""Models that the cluster does not know: model.kind = "own"."""

import json
import random
from collections import OrderedDict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rubato  # noqa: E402
from conftest import in_threads  # noqa: E402

torch.set_num_threads(1)

OWN = 'kind = "own"'
BATCH = 16


class Net(nn.Module):
    """A small convolutional network with running statistics, whose last weights are tied."""

    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.inner = nn.Linear(width * 4, 8)
        self.again = nn.Linear(8, 8)
        self.last = nn.Linear(8, 8)
        self.last.weight = self.again.weight

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x))).flatten(1)
        return self.last(F.relu(self.again(F.relu(self.inner(x)))))[:, :4]


def data(seed=0, samples=256):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % 4
    x = torch.randn(samples, 1, 4, 4, generator=generator)
    x[torch.arange(samples), 0, y % 2 * 2, y // 2 * 2] += 3
    return x, y


def test_set(model):
    x, y = data(1)
    scores = model(x)
    return F.cross_entropy(scores, y).item(), (scores.argmax(1) == y).float().mean().item(), len(y)


test_set.__test__ = False


def start(cluster, sync, stop, **options):
    return cluster.start(sync, model=OWN, stop=stop, data="", training="", **options)


def loop(cluster, name, seed, measured=None, lr=0.02, steps=None, model=None):
    torch.manual_seed(seed)
    model = model or Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def evaluate():
        assert not model.training and not torch.is_grad_enabled()
        found = test_set(model)
        measured.append(found)
        return found

    measures = {"evaluate": evaluate, "held_out": 256} if measured is not None else {}
    with cluster.worker(model, optimizer, name=name, **measures) as w:
        for x, y in w.batches(data(), BATCH):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert model.training
            if not w.step(loss, len(x)) or w.steps == steps:
                break
    return model


@pytest.mark.parametrize(
    "sync, more",
    [
        ("bsp", ""),
        ("adsp", ""),
        ("local-sgd", '[sync.local-sgd]\nlocal_steps = 4\n[optimizer]\nkind = "nesterov"'),
    ],
)
def test_batchnorm(cluster, sync, more):
    start(cluster, sync, "max_steps = 240", workers=("a", "b"), more=more)
    measured = [], []
    models = in_threads(
        lambda: loop(cluster, "a", 1, measured[0]), lambda: loop(cluster, "b", 2, measured[1])
    )
    assert cluster.ends() == 0, cluster.log
    for model in models:
        assert (model.norm.running_var > 0).all()
    fresh = Net()
    path = cluster.place / "out/best.safetensors"
    found = rubato.load(path, fresh)
    assert (fresh.norm.running_var > 0).all() and fresh.last.weight is fresh.again.weight
    fresh.load_state_dict(found, strict=True)
    assert "again.weight" in rubato.load(path)  # tied: the file has both names
    fresh.eval()
    with torch.no_grad():
        loss, accuracy, _ = test_set(fresh)
    run = json.loads((cluster.place / "out/results.json").read_text())["runs"][0]
    assert measured[0] and measured[1] and torch.isfinite(torch.tensor(loss))
    assert [each["held_out"]["samples"] for each in run["workers"]] == [256, 256]
    if sync == "bsp":
        assert loss < measured[0][0][0] and accuracy > measured[0][0][1]


VIRTUAL = """
name = "norm"
[[workers]]
name = "pc"
step_seconds = 0.1
[[workers]]
name = "pi"
count = 2
step_seconds = 0.3
[model]
kind = "own"
[training]
batch = 16
[sync.adsp]
check_period_seconds = 4
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 12
"""
VIRTUAL_LOOP = """
import torch, torch.nn.functional as F, rubato
from test_own import Net, data, test_set
torch.set_num_threads(1)
def train():
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    with rubato.Worker("norm.toml", model, optimizer, evaluate=lambda: test_set(model)) as w:
        for x, y in w.batches(data()):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
"""


@pytest.mark.parametrize(
    "sync, more",
    [
        (["bsp", "adsp", "tempo"], ""),
        (["local-sgd"], '[sync.local-sgd]\nlocal_steps = 8\nmean = true\n'
                        '[optimizer]\nkind = "nesterov"\nglobal_rate = 0.7\n'),
    ],
    ids=["three", "local-sgd"],
)  # fmt: skip
def test_the_file_of_a_virtual_run_is_its_best_point(tmp_path, monkeypatch, sync, more):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    (tmp_path / "norm.toml").write_text(VIRTUAL + more)
    (tmp_path / "train.py").write_text(VIRTUAL_LOOP)
    runs = rubato.compare(
        tmp_path / "norm.toml", tmp_path / "train.py", sync=sync, save=True, out=tmp_path / "out"
    ).runs
    assert [run.sync for run in runs] == sync
    for run in runs:
        is_of_its_best_point(run)


def is_of_its_best_point(run):
    points = list(zip(run.curve["loss"], run.curve["accuracy"], run.curve["steps"]))
    loss, accuracy, steps = min(points)
    assert len(points) >= 10 and accuracy > 0.5
    assert run.model is not None and run.model.endswith("best.safetensors")

    content = Path(run.model).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    told = {key: float(header[f"rubato.run.{key}"])
            for key in ("held_out_loss", "held_out_accuracy", "steps")}  # fmt: skip
    assert told["held_out_loss"] == pytest.approx(loss, abs=1e-6)
    assert told["held_out_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert told["steps"] == steps

    fresh = Net()
    fresh.load_state_dict(rubato.load(run.model, fresh), strict=True)
    fresh.eval()
    with torch.no_grad():
        assert test_set(fresh)[:2] == pytest.approx((loss, accuracy), abs=1e-6)
    assert (fresh.norm.running_var > 0).all() and not (fresh.norm.running_var == 1).any()


def test_everybody_begins_with_the_values_of_one_worker(cluster):
    start(cluster, "bsp", "max_steps = 1000", workers=("a", "b"))

    def began(name, value):
        model = nn.Linear(3, 2)
        with torch.no_grad():
            model.weight.fill_(value)
        with cluster.worker(model, name=name):
            return model.weight.detach().clone()

    a, b = in_threads(lambda: began("a", 1.0), lambda: began("b", 2.0))
    assert torch.equal(a, b) and a[0, 0] in (1, 2)


def both_refused(cluster, models, *words):
    def refused(name, model):
        with pytest.raises(rubato.Refused) as error:
            with cluster.worker(model, name=name):
                raise AssertionError("it has joined")
        return str(error.value)

    for line in in_threads(lambda: refused("a", models[0]), lambda: refused("b", models[1])):
        assert "\n" not in line
        for each in words:
            assert each in line


def test_other_shapes_on_another_box(cluster):
    start(cluster, "bsp", "max_steps = 10", workers=("a", "b"))
    both_refused(cluster, (Net(), Net(width=5)), '"conv.weight"', "[4, 1, 3, 3]", "[5, 1, 3, 3]")


class Scaled(nn.Module):
    def __init__(self, parameter):
        super().__init__()
        if parameter:
            self.scale = nn.Parameter(torch.ones(2))
        else:
            self.register_buffer("scale", torch.ones(2))
        self.last = nn.Linear(2, 2)


@pytest.mark.parametrize(
    "one, other, words",
    [
        (
            nn.Sequential(OrderedDict(first=nn.Linear(3, 2))),
            nn.Sequential(OrderedDict(other=nn.Linear(3, 2))),
            ('"first.weight" [2, 3]', '"other.weight" [2, 3]'),
        ),
        (nn.Linear(3, 2), nn.Linear(3, 2, bias=False), ('"bias" [2]',)),
        (Scaled(True), Scaled(False), ('"scale" [2]', "averaged")),
    ],
)
def test_other_names_counts_and_kinds_on_another_box(cluster, one, other, words):
    start(cluster, "bsp", "max_steps = 10", workers=("a", "b"))
    both_refused(cluster, (one, other), *words)


class Adapted(nn.Module):
    """A frozen layer and what is trained beside it."""

    def __init__(self, value=1.0):
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.adapter = nn.Linear(4, 4)
        with torch.no_grad():
            self.base.weight.fill_(value)
            self.base.bias.fill_(value)

    def forward(self, x):
        return self.base(x) + self.adapter(x)


def test_frozen_weights_that_differ(cluster):
    start(cluster, "bsp", "max_steps = 10", workers=("a", "b"))
    both_refused(cluster, (Adapted(1), Adapted(2)), "frozen")


def test_frozen_weights_stay(cluster):
    start(cluster, "bsp", "max_steps = 20", workers=("a", "b"))

    def train(name):
        model = Adapted()
        optimizer = torch.optim.SGD(model.adapter.parameters(), 0.1)
        with cluster.worker(model, optimizer, name=name) as w:
            while not w.over:
                loss = model(torch.ones(8, 4)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                w.step(loss, 8)
        assert (model.base.weight == 1).all()
        return model

    in_threads(lambda: train("a"), lambda: train("b"))
    assert cluster.ends() == 0
    fresh = Adapted(7)
    found = rubato.load(cluster.place / "out/model.safetensors", fresh)
    assert set(found) == {"adapter.weight", "adapter.bias"}
    assert (fresh.base.weight == 7).all() and torch.equal(fresh.adapter.bias, found["adapter.bias"])


def test_buffers_that_stay_on_their_box(cluster):
    start(cluster, "bsp", "max_steps = 40", workers=("a", "b"))

    def train(name, mean):
        torch.manual_seed(3)
        model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with cluster.worker(model, optimizer, name=name, buffers="own") as w:
            while not w.over:
                loss = model(torch.randn(8, 3) + mean).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                w.step(loss, 8)
        return model[0].running_mean, model[1].weight

    (mean_a, _), (mean_b, _) = in_threads(lambda: train("a", 5.0), lambda: train("b", -5.0))
    assert (mean_a > 1).all() and (mean_b < -1).all()
    assert "0.running_mean" not in rubato.load(cluster.place / "out/model.safetensors")


def test_averaged_buffers_are_the_mean(cluster):
    start(cluster, "bsp", "max_steps = 40", workers=("a", "b"))

    def train(name, value):
        model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
        seen = []
        with cluster.worker(model, name=name) as w:
            while not w.over:
                model[0].running_mean.fill_(value)
                w.step(1.0, 8)
                seen.append(model[0].running_mean[0].item())
        return seen

    for seen in in_threads(lambda: train("a", 2.0), lambda: train("b", 4.0)):
        assert seen[5] == pytest.approx(3.0)


def test_an_evaluation_leaves_no_trace(cluster):
    start(cluster, "asp", "max_seconds = 1000")
    calls = []

    def evaluate():
        random.random(), torch.rand(3)
        calls.append(0)
        return 1.0

    model = Net()
    with cluster.worker(model, evaluate=evaluate) as w:
        random.seed(1)
        torch.manual_seed(1)
        while len(calls) < 3:
            assert w.step(1.0, 1)
        drawn = random.random(), torch.rand(1).item()
    random.seed(1)
    torch.manual_seed(1)
    assert drawn == (random.random(), torch.rand(1).item())


@pytest.mark.parametrize(
    "result, words", [((1, 2, 3, 4), "not 4 values"), (("much",), "much"), ((), "not 0 values")]
)
def test_evaluations_that_are_none(cluster, result, words):
    start(cluster, "asp", "max_steps = 1000")
    with pytest.raises(ValueError, match=words):
        with cluster.worker(Net(), evaluate=lambda: result) as w:
            while w.step(1.0, 1):
                pass


def test_a_worker_that_is_lost_joins_again_without_seeding_anew(cluster):
    start(cluster, "asp", "max_seconds = 1000")
    loop(cluster, "w", 1, steps=50)
    model = Net()
    with torch.no_grad():
        model.conv.weight.fill_(99)
    with cluster.worker(model) as w:
        assert (model.conv.weight < 10).all() and w.earlier_steps == 50
