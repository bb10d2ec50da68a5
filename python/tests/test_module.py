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
    environment = dict(os.environ, PYTHONPATH=package, PATH=here)
    environment.pop("PYTHONUNBUFFERED", None)  # most users have none
    with open(place / "err.log", "w") as err:
        return subprocess.Popen(
            [COMMAND, "compare", "own.toml", "--sync", "bsp", *options],
            cwd=place,
            env=environment,
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


FRESH = "\nif __name__ == '__main__':\n    train()\n"
AS_ONE = "--module", "train.py", "--out", "out"
EACH = "--out", "out", "--", "python3", "train.py"


@pytest.mark.parametrize("options", [AS_ONE, EACH], ids=["forked", "fresh"])
@pytest.mark.parametrize(
    "end, how, forked, fresh",
    [
        ("raise ValueError('two\\nlines')", "its loop ended by an exception",
         "train.py:8: ValueError: two lines", "lines"),
        ("signal.raise_signal(signal.SIGINT)", "its loop ended by an exception",
         "", "KeyboardInterrupt"),
        ("print('bye'), os._exit(5)", "its program {} before the run was over", "bye", "bye"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its program {} before the run was over", "", ""),
    ],
)  # fmt: skip
def test_a_loop_that_fails(tmp_path, end, how, forked, fresh, options):
    code, err = compare(tmp_path, LOOP.format(end=end) + FRESH, *options)
    assert code == 1
    *before, last = err.splitlines()
    printed = forked if options == AS_ONE else fresh
    fate = "ended by signal 9" if "KILL" in end else "ended with exit code 5"
    fate = "has ended" if options == AS_ONE else fate.replace("ended by", "was ended by")
    assert last.startswith(f"rubato: worker b: {how.format(fate)}; ")
    if not printed:
        assert last.endswith("; it has printed nothing")
        return
    words = "; the last line that it printed: "
    assert words in last and last.endswith(printed)
    # All that it has printed comes before that line, and says whose it is.
    assert f"b: {last.split(words)[1]}" in before
    if "ValueError" in end:
        trace = before.index("b: Traceback (most recent call last):")
        assert before[trace : before.index("b: ValueError: two") + 2][-1] == "b: lines"


TALKS = """import sys, numpy, rubato
def measure():
    print("measured")
    return 1.0
def train():
    model = {"w": numpy.zeros(3, numpy.float32)}
    with rubato.Worker("own.toml", model, evaluate=measure) as w:
        while w.step(1.0, 1):
            for i in range(50):
                print(w.steps, i, file=(sys.stdout, sys.stderr)[i % 3 == 1])
            if w.steps == 10:
                print("x" * 300000)
                print("\\r10 %\\r20 %", end="\\r")
    print("bye", end="")
"""


@pytest.mark.parametrize("options", [AS_ONE, EACH], ids=["forked", "fresh"])
def test_what_loops_print_is_whole_and_in_order(tmp_path, options):
    code, err = compare(tmp_path, TALKS + FRESH, *options)
    assert code == 0, err
    found = {"a": [], "b": [], "evaluator": []}
    for line in err.splitlines():
        name, colon, text = line.partition(": ")
        if colon and name in found:
            found[name].append(text)
    measured = found.pop("evaluator")
    assert len(measured) >= 20 and set(measured[:-1]) == {"measured"} and measured[-1] == "bye"
    for lines in found.values():
        steps = int(lines[-2].split()[0])
        expected = [f"{step} {i}" for step in range(1, steps + 1) for i in range(50)]
        expected[500:500] = ["x" * 300000, "10 %", "20 %"]
        assert lines == expected + ["bye"] and steps > 150


PRINTS = "print('out'); print('err', file=sys.stderr)"


@pytest.mark.parametrize("end, steps", [("return", 20), ("sys.exit(3)", 20), (PRINTS, 200)])
def test_a_loop_that_returns_or_prints_stops_nobody(tmp_path, end, steps):
    code, err = compare(tmp_path, LOOP.format(end=end))
    assert code == 0, err
    assert "max_seconds 20 reached" in err
    # What it prints comes at once, and not among the results.
    assert [each for each in err.splitlines() if each.startswith("b: ")] == (
        ["b: out", "b: err"] if end == PRINTS else []
    )
    run = json.loads((tmp_path / "out/results.json").read_text())["runs"][0]
    made = {each["id"]: each["steps"] for each in run["workers"]}
    assert abs(made["a"] - 200) <= 2 and abs(made["b"] - steps) <= 2


def test_a_train_that_opens_no_worker(tmp_path):
    code, err = compare(tmp_path, "def train():\n    pass\n")
    assert code == 1
    assert "its program has ended before the run was over; it has printed" in err.splitlines()[-1]


def test_kill_of_compare_leaves_no_process(tmp_path):
    (tmp_path / "own.toml").write_text(FILE.replace("max_seconds = 20", "max_seconds = 100000000"))
    process = start(tmp_path, LOOP.format(end=PRINTS), "--module", "train.py", "--out", "out")
    try:
        wait_until(lambda: "b: err\n" in (tmp_path / "err.log").read_text(), "it trains")
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
    """Its results, and the bytes of its curves and of its log, whose first line has the command."""
    run = json.loads((place / name / "results.json").read_text())["runs"]
    log = (place / name / "run.jsonl").read_bytes().split(b"\n", 1)[1]
    assert len(log) > 1000
    return run, (place / name / "curves.csv").read_bytes(), log


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
