"""Running statistics stay within what the workers measured, whatever moves the parameters."""

import json

import pytest

pytest.importorskip("torch")

from conftest import command  # noqa: E402

FILE = """
name = "statistics"
[[workers]]
name = "w"
count = 3
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
[evaluation]
interval_seconds = 0.5
[stop]
max_seconds = 25
"""
# The first variances are 1, those of the data 1e-4: whoever steps over the mean goes below zero.
MODULE = """
import json, torch, torch.nn.functional as F, rubato
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
            print("least", norm.running_var.min().item(), flush=True)
        return F.cross_entropy(model(inputs), labels).item(), 0.0

    with rubato.Worker("own.toml", model, optimizer, evaluate=evaluate) as w:
        for x, y in w.batches((inputs, labels), 20):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
"""
CASES = {
    "bsp": "",
    "asp": "",
    "adsp": "",
    "tempo": "",
    "local-sgd": '[optimizer]\nkind = "nesterov"\nmomentum = 0.9',
    "fedbuff": "",
    "easgd": "",
    "adsp int8": '[wire]\nup = "int8"\ndown = "int8"',
    "asp topk": '[wire]\nup = "top-k"\ndown = "top-k"',
}


@pytest.mark.parametrize("case", CASES)
def test_variances_stay_above_zero(case, tmp_path):
    (tmp_path / "train.py").write_text(MODULE)
    (tmp_path / "own.toml").write_text(FILE.format(more=CASES[case]))
    words = ("--sync", case.split()[0], "--out", "run", "--save")
    text = command(tmp_path, "compare", "own.toml", *words)
    least = [float(line.split()[-1]) for line in text.splitlines() if "least " in line]
    assert len(least) > 40, text
    assert min(least) > 0
    # They are those of the data in the end: the statistics arrive, and do not only stay.
    assert min(least[-2:]) < 0.05
    results = json.loads((tmp_path / "run/results.json").read_text())
    points = results["models"][0] if "models" in results else results
    assert "nan" not in json.dumps(points).lower()
