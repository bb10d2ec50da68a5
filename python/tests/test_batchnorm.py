"""Running statistics stay within what the workers measured, whatever moves the parameters."""

import re

import pytest

from conftest import command, loops_need

loops_need("torch")

FILE = """
name = "statistics"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
latency_seconds = 0.2
[[workers]]
name = "slow"
step_seconds = 0.4
[servers]
count = 2
[model]
kind = "own"
module = "train.py"
{more}
[dataset]
partition = "dirichlet:1"
[sync.adsp]
check_period_seconds = 2
[sync.local-sgd]
local_steps = 6
[sync.adacomm]
local_steps = 6
[sync.batchtune-adacomm]
local_steps = 6
[sync.dylu]
local_steps = 6
[sync.fedbuff]
local_steps = 6
buffer = 4
[evaluation]
interval_seconds = 0.5
[stop]
max_seconds = 15
"""
# The first variances are 1, those of the data 1e-4: whoever steps over the mean goes below zero.
MODULE = """
import os, torch, torch.nn.functional as F, rubato
from torch import nn

numbers = torch.Generator().manual_seed(2)
labels = torch.arange(200) % 3
inputs = 0.01 * (torch.randn(200, 6, generator=numbers) + 2 * F.one_hot(labels, 6))

def train():
    model = nn.Sequential(
        *(nn.BatchNorm1d(6, momentum=0.4), nn.Linear(6, 8)),
        *(nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def evaluate():
        for norm in (model[0], model[2]):
            print("least", os.environ["RUBATO_SYNC"], norm.running_var.min().item())
        return F.cross_entropy(model(inputs), labels).item(), 0.0

    with rubato.Worker("own.toml", model, optimizer, evaluate=evaluate) as w:
        for x, y in w.batches((inputs, labels), 20):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
"""


def least(place, sync, more=""):
    """What each sync model's evaluations saw as the least variance of each layer, in order."""
    (place / "train.py").write_text(MODULE)
    (place / "own.toml").write_text(FILE.format(more=more))
    text = command(place, "compare", "own.toml", "--sync", ",".join(sync), "--out", "run")
    found = {each: [] for each in sync}
    for name, value in re.findall(r"least (\S+) (\S+)", text):
        found[name].append(float(value))
    return found


def stay_above_zero(found):
    for name, values in found.items():
        assert len(values) > 50 and min(values) > 0, (name, values)
        # They are those of the data in the end: the statistics arrive, and do not only stay.
        assert min(values[-2:]) < 0.05, (name, values[-2:])


def test_variances_stay_above_zero_under_every_sync_model(tmp_path):
    models, _ = command(tmp_path, "models").split("\nServer optimizers")
    names = re.findall(r"(?m)^([a-z-]+) +\S", models)
    assert len(names) > 15
    stay_above_zero(least(tmp_path, names))


@pytest.mark.parametrize(
    "sync, more",
    [
        ("local-sgd", '[optimizer]\nkind = "nesterov"\nmomentum = 0.9'),
        ("adsp", '[wire]\nup = "int8"\ndown = "int8"'),
        ("asp", '[wire]\nup = "top-k"\ndown = "top-k"'),
    ],
)
def test_variances_stay_above_zero_beside(sync, more, tmp_path):
    stay_above_zero(least(tmp_path, [sync], more))
