"""Curves of each worker: training loss and learning rate, noted by the loops themselves."""

import csv
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

import rubato
from conftest import BATCH, COMMAND, arrays, train
from rubato._curves import COLUMNS, Notes, read
from test_results import event_class, records

FILE = """
name = "curves"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
[model]
kind = "own"
[dataset]
partition = "local"
[training]
batch = 4
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 5
"""

LOOP = """
import numpy, rubato, torch
def train():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.1)
    with rubato.Worker("edge.toml", model, optimizer) as w:
        for x in w.batches(torch.ones(20, 3)):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
            scheduler.step()
"""


LOOP_OF_NUMPY = """
import numpy, rubato
def train():
    model = {"w": numpy.zeros(3, numpy.float32)}
    with rubato.Worker("edge.toml", model) as w:
        while w.step(0.5, 4):
            model["w"] += 0.001
if __name__ == "__main__":
    train()
"""


def test_of_a_comparison(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "edge.toml").write_text(FILE)
    (tmp_path / "train.py").write_text(LOOP)
    result = rubato.compare(tmp_path / "edge.toml", tmp_path / "train.py", sync=["bsp", "tempo"],
                            out=tmp_path / "out")  # fmt: skip
    rows = {}
    for row in result.worker_curves():
        rows.setdefault((row["sync"], row["worker"]), []).append(row)
    assert sorted(rows) == [(sync, name) for sync in ("bsp", "tempo") for name in ("w-0", "w-1")]
    for own in rows.values():
        assert [row["steps"] for row in own] == list(range(1, len(own) + 1)) and len(own) > 20
        assert own[-1]["loss"] < own[0]["loss"] / 10
        for i, row in enumerate(own):
            assert row["learning_rate"] == pytest.approx(0.5 * 0.1 ** (i // 10) * row["rate"])
            assert row["samples"] == 4 and row["seed"] == 1
        seconds = [row["seconds"] for row in own]
        # On virtual time: at the end of each step, which takes 0.1 s; then a commit follows.
        assert all(0.0999 <= b - a < 0.5 for a, b in zip([0.0, *seconds], seconds))
        assert 4 < seconds[-1] <= 5
    for run in result.runs:
        both = [row for name in ("w-0", "w-1") for row in rows[run.sync, name]]
        # The run has counted the last step, too, before it has ended.
        assert abs(len(both) - run.steps) <= 2
        assert (run.sync == "tempo") == any(row["rate"] != 1 for row in both)

    event = event_class()
    paths = result.to_tensorboard(tmp_path / "boards")
    places = [os.path.relpath(os.path.dirname(path), tmp_path / "boards") for path in paths]
    names = "", "/w-0", "/w-1"
    assert sorted(places) == [f"{sync}-1{name}" for sync in ("bsp", "tempo") for name in names]
    for place, path in zip(places, paths):
        sync, _, name = place.partition("-1/")
        if not name:
            continue
        events = [event.FromString(each) for each in records(path)][1:]
        for tag, column in ("training_loss", "loss"), ("learning_rate", "learning_rate"):
            found = [each for each in events if each.summary.value[0].tag == tag]
            own = rows[sync, name]
            assert [each.step for each in found] == [row["steps"] for row in own]
            assert [each.summary.value[0].simple_value for each in found] == (
                pytest.approx([row[column] for row in own])
            )


@pytest.mark.parametrize(
    "words", [("compare",), ("compare", "--real"), ("up",)], ids=lambda words: "-".join(words)
)
def test_of_a_run_from_the_shell(tmp_path, words):
    (tmp_path / "edge.toml").write_text(FILE.replace("max_seconds = 5", "max_steps = 40"))
    (tmp_path / "train.py").write_text(LOOP_OF_NUMPY)
    package = str(Path(rubato.__file__).parents[1])
    here = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # this python3
    environment = dict(os.environ, PYTHONPATH=package, PATH=here)

    def run(out, **more):
        options = "--sync", "bsp", "--module", "train.py", "--out", out
        done = subprocess.run(
            [COMMAND, words[0], "edge.toml", *words[1:], *options],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr

    run("out")
    for name in ("w-0", "w-1"):
        rows = content(tmp_path / f"out/curves/bsp-1/{name}.csv")
        assert 15 <= len(rows) <= 25 and {row["loss"] for row in rows} == {"0.5"}
        seconds = [float(row["seconds"]) for row in rows]
        assert seconds == sorted(seconds) and seconds[-1] > 1
    if words == ("compare",):  # the user's own word counts; an empty one means none
        run("none", RUBATO_CURVES="")
        run("elsewhere", RUBATO_CURVES=str(tmp_path / "notes"))
        assert not (tmp_path / "none/curves").exists()
        assert (tmp_path / "notes/bsp-1/w-1.csv").read_text() == (
            tmp_path / "out/curves/bsp-1/w-1.csv").read_text()


def test_of_a_real_run_and_its_processes(cluster, monkeypatch):
    notes = cluster.place / "notes"
    monkeypatch.setenv("RUBATO_CURVES", str(notes))
    cluster.start("asp", stop="max_seconds = 1000")
    for steps in (5, 7):
        model = arrays()
        with cluster.worker(model) as w:
            train(w, model, steps, 0.25)
    assert sorted(os.listdir(notes / "asp-1")) == ["w.csv", "w~1.csv"]
    rows = [row for _, row in read(str(notes), "asp", 1)]
    assert [row["steps"] for row in rows] == list(range(1, 13))
    assert {row["loss"] for row in rows} == {0.25} and {row["samples"] for row in rows} == {BATCH}
    assert all(math.isnan(row["learning_rate"]) for row in rows)  # of a loop of NumPy
    seconds = [row["seconds"] for row in rows[1:5]]
    assert seconds == sorted(seconds) and seconds[-1] > 0


def turn(step):
    return SimpleNamespace(seconds=step / 10, earlier_steps=0, steps=step, commits=step // 2)


def content(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_long_curve_keeps_its_mean(tmp_path):
    notes = Notes(str(tmp_path), "bsp", 3, "w")
    losses = numpy.random.default_rng(1).random(10000)
    for step, loss in enumerate(losses, 1):
        notes.step(turn(step), 8 * loss, 8, 0.1, 0.5)
    notes.write()
    rows = content(tmp_path / "bsp-3/w.csv")
    assert list(rows[0]) == list(COLUMNS) and 1000 <= len(rows) <= 2000
    every = 10000 // len(rows)
    assert [int(row["steps"]) for row in rows] == list(range(every, 10001, every))
    means = losses.reshape(-1, every).mean(1)
    assert [float(row["loss"]) for row in rows] == pytest.approx(list(means), rel=1e-6)
    assert {row["learning_rate"] for row in rows} == {"0.05"}


def test_a_process_that_is_killed_leaves_half_of_its_curve(tmp_path):
    notes = Notes(str(tmp_path), "bsp", 1, "w")
    for step in range(1, 1000):
        notes.step(turn(step), 1.0, 1, None, 1.0)
    assert len(content(tmp_path / "bsp-1/w.csv")) >= 500
    assert os.listdir(tmp_path / "bsp-1") == ["w.csv"]


def test_losses_that_were_not_told(tmp_path):
    notes = Notes(str(tmp_path), "bsp", 1, "w")
    for step, (loss, samples) in enumerate([(0.0, 0), (math.nan, 4), (8.0, 4)], 1):
        notes.step(turn(step), loss, samples, 0.1, 1.0)
    notes.write()
    assert [row["loss"] for row in content(tmp_path / "bsp-1/w.csv")] == ["", "", "2"]


def test_a_directory_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    (tmp_path / "bsp-1").write_text("a file")
    notes = Notes(str(tmp_path), "bsp", 1, "w")
    for step in range(1, 100):
        notes.step(turn(step), 1.0, 1, 0.1, 1.0)
    notes.write()
    assert [each.message.split(":")[0] for each in caplog.records] == ["w"]
    assert "curves are not written" in caplog.text
