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


def compare(place, module):
    """Returns: the exit code and standard error, when no process is left."""
    (place / "own.toml").write_text(FILE)
    (place / "train.py").write_text(module)
    package = str(Path(rubato.__file__).parents[1])
    here = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # this python3
    options = "--sync", "bsp", "--out", "out"
    with open(place / "err.log", "w") as err:
        process = subprocess.Popen(
            [COMMAND, "compare", "own.toml", "--module", "train.py", *options],
            cwd=place,
            env=dict(os.environ, PYTHONPATH=package, PATH=here),
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
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
    assert f"worker b: {line}" in lines[-1]
    if "ValueError" in end:
        assert lines[0].startswith("rubato: worker b: ")
        assert "train.py:8: ValueError: two lines" in lines[0]


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
