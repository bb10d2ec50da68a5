"""`rubato compare --module`: what becomes of a file, or a train(), that fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rubato
from conftest import COMMAND, DEADLINE, wait_until

FILE = """
name = "own"
[[workers]]
name = "a"
step_seconds = 0.1
[[workers]]
name = "b"
step_seconds = 0.1
[servers]
count = 1
[model]
kind = "own"
[evaluation]
interval_seconds = 1
[stop]
max_seconds = 20
"""

LOOP = """import os, signal, sys, numpy, rubato
def train():
    model = {{"w": numpy.zeros(3, numpy.float32)}}
    with rubato.Worker("own.toml", model) as w:
        while w.step(1.0, 1):
            model["w"] += 0.001
            if w.steps == 20 and w.name == "b":
                {end}
"""


def start(place, module, *options):
    """`rubato compare`, in a group of its own with all its children."""
    (place / "train.py").write_text(module)
    if not (place / "own.toml").exists():
        (place / "own.toml").write_text(FILE)
    package = str(Path(rubato.__file__).parents[1])
    here = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # this python3
    with open(place / "err.log", "w") as err:
        return subprocess.Popen(
            [COMMAND, "compare", "own.toml", "--sync", "bsp", *options],
            cwd=place,
            env=dict(os.environ, PYTHONPATH=package, PATH=here),
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )


def compare(place, module, *options):
    """Returns: the exit code and standard error, when no process is left."""
    process = start(place, module, *(options or ("--module", "train.py", "--out", "out")))
    try:
        code = process.wait(DEADLINE)
    finally:
        process.kill()
    wait_until(lambda: no_group(process.pid), "all children have ended")
    return code, (place / "err.log").read_text()


def no_group(leader):
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    "module, line",
    [
        ("\nimport absent", "train.py:2: ModuleNotFoundError: No module named 'absent'"),
        ("x = 1\n1 +", "train.py:2: SyntaxError: invalid syntax"),
        ("x = 1", "AttributeError: train.py has no function train(), which holds the training"),
        ("raise ValueError('two\\nlines')", "train.py:1: ValueError: two lines"),
        ("import sys\nsys.exit(4)", "train.py:2: SystemExit: 4"),
    ],
)
def test_a_file_that_cannot_be_loaded(tmp_path, module, line):
    code, err = compare(tmp_path, module)
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith("rubato: ") and line in last


@pytest.mark.parametrize(
    "end, line",
    [
        ("raise ValueError('two\\nlines')", "its loop ended by an exception"),
        ("signal.raise_signal(signal.SIGINT)", "its loop ended by an exception"),
        ("os._exit(5)", "its program has ended before the run was over"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its program has ended before the run was over"),
    ],
)
def test_a_loop_that_fails(tmp_path, end, line):
    code, err = compare(tmp_path, LOOP.format(end=end))
    assert code == 1
    lines = [each for each in err.splitlines() if each.startswith("rubato: ")]
    # The process and the command write to one file, either of them first.
    assert any(f"worker b: {line}" in each for each in lines)
    if "ValueError" in end:
        assert any("worker b: " in each and "train.py:8: ValueError: two lines" in each
                   for each in lines)


PRINTS = "print('out'); print('err', file=sys.stderr)"


@pytest.mark.parametrize("end, steps", [("return", 20), ("sys.exit(3)", 20), (PRINTS, 200)])
def test_a_loop_that_returns_or_prints_stops_nobody(tmp_path, end, steps):
    code, err = compare(tmp_path, LOOP.format(end=end))
    assert code == 0, err
    assert "max_seconds 20 reached" in err
    # What it prints comes at once, and not among the results.
    assert [each for each in err.splitlines() if each in ("out", "err")] == (
        ["out", "err"] if end == PRINTS else []
    )
    run = json.loads((tmp_path / "out/results.json").read_text())["runs"][0]
    made = {each["id"]: each["steps"] for each in run["workers"]}
    assert abs(made["a"] - 200) <= 2 and abs(made["b"] - steps) <= 2


def test_a_train_that_opens_no_worker(tmp_path):
    code, err = compare(tmp_path, "def train():\n    pass\n")
    assert code == 1
    assert "its program has ended before the run was over" in err.splitlines()[-1]


def test_kill_of_compare_leaves_no_process(tmp_path):
    (tmp_path / "own.toml").write_text(FILE.replace("max_seconds = 20", "max_seconds = 100000000"))
    process = start(tmp_path, LOOP.format(end=PRINTS), "--module", "train.py", "--out", "out")
    try:
        wait_until(lambda: "err\n" in (tmp_path / "err.log").read_text(), "it trains")
        assert not no_group(process.pid)
    finally:
        process.kill()
    process.wait(DEADLINE)
    wait_until(lambda: no_group(process.pid), "all children have ended")


DRAWS = """import random, numpy, rubato
def train():
    model = {{"w": numpy.zeros(3, numpy.float32)}}
    with rubato.Worker("own.toml", model, evaluate=lambda: float(abs(model["w"] - 1).sum())) as w:
        {seed}
        for chosen in w.batches(numpy.arange(100, dtype=numpy.float32), 4):
            noise = numpy.random.normal(chosen.mean() / 5000, 0.001, 3) + random.uniform(0, 0.001)
            model["w"] += noise.astype(numpy.float32)
            w.step(float(noise.sum()), 4)
{end}
"""


def of_run(place, name):
    run = json.loads((place / name / "results.json").read_text())["runs"]
    return run, (place / name / "curves.csv").read_bytes()


def test_the_same_run_twice_with_one_and_two_threads(tmp_path):
    module = DRAWS.format(seed="", end="")
    for name, threads in ("one", 1), ("two", 2), ("again", 1):
        options = "--threads", str(threads), "--seeds", "2", "--out", name
        code, err = compare(tmp_path, module, "--module", "train.py", *options)
        assert code == 0, err
    one, two, again = (of_run(tmp_path, name) for name in ("one", "two", "again"))
    assert one == two == again
    # Numbers follow from the seed of the run.
    assert one[0][0]["final_loss"] != one[0][1]["final_loss"]


def test_forked_and_fresh_processes_make_the_same_run(tmp_path):
    seed = "random.seed(w.index), numpy.random.seed(w.index)"
    module = DRAWS.format(seed=seed, end='if __name__ == "__main__":\n    train()')
    for options in ("--out", "forked", "--module", "train.py"), (
        "--out", "fresh", "--", "python3", "train.py",
    ):
        code, err = compare(tmp_path, module, *options)
        assert code == 0, err
    assert of_run(tmp_path, "forked") == of_run(tmp_path, "fresh")
