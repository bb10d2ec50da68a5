"""What happens to a worker whose process is forked, interrupted, killed, or ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rubato
from conftest import COMMAND, arrays, in_threads, train, wait_until

# Waits in w.step() for "b", which has joined in this process and makes no step.
WAITS = """
model = arrays()
other = threading.Thread(target=lambda: Other.__enter__())
Other = join(name="b")
other.start()
with join(model, name="a") as w:
    other.join()
    print("waits", flush=True)
    w.step(1.0, BATCH)
"""

TRAINS = """
model = arrays()
with join(model) as w:
    print("trains", w.earlier_steps, flush=True)
    train(w, model)
"""


def test_ctrl_c_while_a_step_waits(cluster):
    cluster.start(workers=("a", "b"), stop="max_seconds = 1000")
    script = cluster.script(WAITS, name="")
    script.says("waits")
    script.signal(signal.SIGINT)
    sent = time.monotonic()
    cluster.says("'a' left: interrupted")
    assert time.monotonic() - sent < 2
    assert script.ends() == -signal.SIGINT and "KeyboardInterrupt" in script.out
    cluster.says("'b' left: the script ended")


def test_ctrl_c_while_it_joins(cluster):
    cluster.start(workers=("w", "absent"))
    script = cluster.script("with join() as w: pass")
    cluster.says("waiting for")
    script.says("shared memory")
    script.signal(signal.SIGINT)
    assert script.ends() == -signal.SIGINT and "KeyboardInterrupt" in script.out


def test_ctrl_c_twice_in_the_loop(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    script = cluster.script(TRAINS)
    script.says("trains")
    script.signal(signal.SIGINT)
    script.signal(signal.SIGINT)
    assert script.ends() == -signal.SIGINT
    cluster.says("'w' left: ")


def test_sigterm_ends_it_as_python_has_it(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    script = cluster.script(TRAINS + "print('not reached')")
    script.says("trains")
    script.signal(signal.SIGTERM)
    assert script.ends() == -signal.SIGTERM and "not reached" not in script.out


def test_an_interrupt_that_the_loop_catches(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 40")
    script = cluster.script(
        """
models = {name: arrays() for name in "ab"}
workers = {name: join(models[name], name=name) for name in "ab"}
both = [threading.Thread(target=w.__enter__) for w in workers.values()]
for each in both: each.start()
for each in both: each.join()
a, b = workers["a"], workers["b"]
for _ in range(3):
    try:
        print("waits", flush=True)
        a.step(1.0, BATCH)
    except KeyboardInterrupt:
        print("caught", time.monotonic(), flush=True)
loop = threading.Thread(target=train, args=(b, models["b"]))
loop.start()
train(a, models["a"])
loop.join()
print("over", a.over, b.over)
""",
        name="",
    )
    sent = []
    for made in (1, 2, 3):
        wait_until(lambda: script.out.count("waits") == made, "a waits")
        sent.append(time.monotonic())
        script.signal(signal.SIGINT)
        wait_until(lambda: script.out.count("caught") == made, "a hears it")
    assert script.ends() == 0, script.out
    heard = [float(line.split()[1]) for line in script.out.splitlines() if "caught" in line]
    assert min(after - before for before, after in zip(sent, heard)) < 0.1
    assert "over True True" in script.out
    assert cluster.ends() == 0


def test_an_exception_in_the_loop_is_told_and_others_go_on(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 60")
    models = arrays(), arrays()

    def fails():
        with pytest.raises(ZeroDivisionError):
            with cluster.worker(models[0], name="a") as w:
                train(w, models[0], 5)
                1 / 0

    def goes_on():
        with cluster.worker(models[1], name="b") as w:
            train(w, models[1])
            return w.over

    assert in_threads(fails, goes_on)[1]
    cluster.says("'a' left: exception: ZeroDivisionError")
    assert cluster.ends() == 0


@pytest.mark.parametrize(
    "end, why, code",
    [
        ("sys.exit(3)", "the script ended", 3),
        ("raise SystemExit('a reason')", "the script ended", 1),
        ("pass", "done", 0),
    ],
)
def test_ends_of_a_with_block(cluster, end, why, code):
    cluster.start("asp", stop="max_seconds = 1000")
    loop = f"model = arrays()\nwith join(model) as w:\n    train(w, model, 3)\n    {end}"
    script = cluster.script(loop)
    assert script.ends() == code
    cluster.says(f"'w' left: {why}")


def test_the_end_of_a_script_without_with(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    script = cluster.script("model = arrays()\nw = join(model)\ntrain(w, model, 3)\n")
    assert script.ends() == 0
    cluster.says("'w' left: the script ended")


@pytest.mark.parametrize("end", ["os._exit(7)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_that_dies_joins_again(cluster, end):
    cluster.start("asp", stop="max_seconds = 1000", more="")
    script = cluster.script(
        f"model = arrays()\nw = join(model)\ntrain(w, model, 20)\nassert w.commits > 10\n{end}"
    )
    assert script.ends() in (7, -signal.SIGKILL), script.out
    again = cluster.script(
        """
model = arrays()
with join(model) as w:
    train(w, model, 5)
    print("earlier", w.earlier_steps, w.steps, flush=True)
"""
    )
    assert again.ends() == 0, again.out
    found = [line for line in again.out.splitlines() if line.startswith("earlier")][0].split()
    assert int(found[1]) >= 10 and int(found[2]) == 5


def test_batches_go_on_where_the_earlier_process_stopped(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    code = """
seen = []
with join() as w:
    for x in w.batches(numpy.arange(SAMPLES, dtype=numpy.float32), BATCH):
        seen += [int(each) for each in x]
        w.step(1.0, BATCH)
        if w.steps == 5: break
print("seen", w.earlier_steps, *seen)
"""
    runs = []
    for _ in range(2):
        script = cluster.script(code)
        assert script.ends() == 0, script.out
        line = [each for each in script.out.splitlines() if each.startswith("seen")][0]
        runs.append([int(each) for each in line.split()[1:]])
    (first, *before), (second, *after) = runs
    assert first == 0 and second == 5
    assert not set(before) & set(after) and len(set(before + after)) == 2 * 5 * 16


def test_a_fork_cannot_use_the_worker(cluster):
    cluster.start("asp", stop="max_steps = 200")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 3)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                w.step(1.0)
            except rubato.Error as error:
                code = 2 if error.code == "forked" else 3
                w.close()
                w.__exit__(None, None, None)
                w.__del__()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        train(w, model)
        assert w.over
    assert cluster.ends() == 0


def test_no_descriptor_is_left(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    model = arrays()
    for _ in range(2):  # the first one also opens what is kept for the process
        with cluster.worker(model) as w:
            train(w, model, 3)
        w.close()
        left = len(os.listdir("/proc/self/fd"))
        threads = len(os.listdir("/proc/self/task"))
    with cluster.worker(model) as w:
        train(w, model, 3)
        assert len(os.listdir("/proc/self/fd")) > left
    assert len(os.listdir("/proc/self/fd")) == left
    assert len(os.listdir("/proc/self/task")) == threads


def test_other_threads_run_while_a_step_waits(cluster):
    cluster.start(workers=("a", "b"), stop="max_seconds = 1000")
    script = cluster.script(
        """
counted = 0
def count():
    global counted
    while counted < 100000: counted += 1
    os.kill(os.getpid(), signal.SIGINT)
"""
        + WAITS.replace("    w.step", "    threading.Thread(target=count).start()\n    w.step"),
        name="",
    )
    assert script.ends() == -signal.SIGINT
    cluster.says("'a' left: interrupted")


# --- clusters that do not answer -----------------------------------------------------------------


def test_a_scheduler_that_is_absent_is_named(cluster):
    cluster.start()
    cluster.endpoint = "tcp://127.0.0.1:9"
    script = cluster.script("with join() as w: pass")
    script.says("127.0.0.1:9")
    script.signal(signal.SIGINT)
    assert script.ends() == -signal.SIGINT


def test_a_run_that_is_over_before_it_joins(cluster):
    cluster.start("asp", stop="max_steps = 10")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model)
    assert cluster.ends() == 0


# --- the import ----------------------------------------------------------------------------------


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(rubato.__file__).parents[1]),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_import_brings_neither_torch_nor_numpy():
    known = "('torch', 'numpy', 'asyncio')"
    done = python(f"import sys, rubato; print([m for m in {known} if m in sys.modules])")
    assert done.stdout == "[]\n" and done.stderr == ""


@pytest.mark.parametrize("library", ["/absent/librubato.so.0", "libc.so.6"])
def test_a_library_that_is_missing_or_another(library):
    done = python("import rubato", RUBATO_LIBRARY=library)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: rubato needs librubato.so.0: ")
    assert "RUBATO_LIBRARY" in last


# --- losses and keys -----------------------------------------------------------------------------


def test_a_killed_worker_stops_nobody(cluster):
    cluster.start("bsp", workers=("a", "b"), stop="max_seconds = 1000")
    code = """
model = arrays()
with join(model) as w:
    while not w.over:
        train(w, model, 1)
        print("step", flush=True)
"""
    killed, other = (cluster.script(code, name=name) for name in "ab")
    for each in (killed, other):
        each.says("step")
    killed.signal(signal.SIGKILL)
    cluster.says("lost: no heartbeat")
    made = other.out.count("step")
    wait_until(lambda: other.out.count("step") > made + 10, "b goes on")


def test_keys(cluster):
    keys = cluster.place / "keys"
    cluster.write(stop="max_seconds = 1000")
    for directory in (keys, cluster.place / "strange"):
        subprocess.run(
            [COMMAND, "keygen", "--cluster", cluster.file, "--keys", directory],
            cwd=cluster.place,
            check=True,
            timeout=30,
        )
    cluster.start("asp", again=True, keys=keys)
    with cluster.worker(arrays(), keys=keys / "w") as w:
        assert w.step(1.0)
    strange = cluster.place / "strange/w"
    (strange / "scheduler.pub").write_text((keys / "w/scheduler.pub").read_text())
    with pytest.raises(rubato.Refused, match="key"):
        with cluster.worker(arrays(), keys=strange):
            raise AssertionError("it has joined")
    with pytest.raises(rubato.Error, match="key"):
        cluster.worker(arrays(), keys=cluster.place / "absent")
