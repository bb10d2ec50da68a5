"""What a worker leaves behind in its process, and what of it others see."""

import logging
import multiprocessing
import os
import signal
import threading
from pathlib import Path

import numpy
import pytest

import rubato
from conftest import BATCH, Cluster, arrays, in_threads, train

SLEEPS = """
model = arrays()
with join(model) as w:
    train(w, model, 3)
    print("sleeps", flush=True)
    time.sleep(1000)
"""

TRAINS = """
model = arrays()
with join(model) as w:
    print("made", train(w, model))
"""


def held_by(pid):
    """Files that a process has open or mapped."""
    place = Path(f"/proc/{pid}")
    mapped = [line.split(maxsplit=5)[5:] for line in (place / "maps").read_text().splitlines()]
    opened = [os.readlink(each) for each in (place / "fd").iterdir()]
    return opened + [name for names in mapped for name in names]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_user_code_leaves_nothing(cluster, number):
    cluster.start("asp", stop="max_seconds = 1000")
    script = cluster.script(SLEEPS)
    script.says("sleeps")
    pid = script.process.pid
    # Memory that it shares has no name, and ends with the processes that have it.
    assert any("memfd:" in name for name in held_by(pid))
    assert not any(name.startswith("/dev/shm") for name in held_by(pid))
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
    script.signal(number)
    assert script.ends() == -number
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in script.out
        cluster.says("'w' left: interrupted")


def caught():
    """The signals that this process has handlers for."""
    status = Path("/proc/self/status").read_text().splitlines()
    return [line for line in status if line.startswith(("SigCgt", "SigIgn", "SigBlk"))]


def test_no_signal_handler_is_installed(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    in_threads(lambda: None)  # from the first thread on glibc catches one of its own
    before = caught()
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 3)
        assert caught() == before
    assert caught() == before


def test_an_exception_drops_the_steps_since_the_last_commit(cluster):
    cluster.start(
        "local-sgd", stop="max_seconds = 1000", more="[sync.local-sgd]\nlocal_steps = 50"
    )
    model = arrays()
    with pytest.raises(ZeroDivisionError):
        with cluster.worker(model) as w:
            began = model["w1"].copy()
            train(w, model, 30)
            assert numpy.allclose(model["w1"], began + 0.03, atol=1e-6)
            1 / 0
    with cluster.worker(model) as w:
        assert w.earlier_steps == 30
        assert numpy.array_equal(model["w1"], began)


# --- processes of its own -------------------------------------------------------------------------


def ends_in_a_child(w, how):
    if how == "exit":
        raise SystemExit(0)
    with pytest.raises(rubato.Error):
        w.step(1.0)
    w.close()


@pytest.mark.parametrize("how", ["exit", "use"])
def test_a_child_of_multiprocessing(cluster, how):
    cluster.start("asp", stop="max_steps = 200")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 3)
        child = multiprocessing.get_context("fork").Process(target=ends_in_a_child, args=(w, how))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        train(w, model)
        assert w.over
    assert cluster.ends() == 0


def test_a_child_whose_script_ends(cluster):
    cluster.start("asp", stop="max_steps = 200")
    script = cluster.script(
        """
model = arrays()
w = join(model)
train(w, model, 3)
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
print("made", train(w, model), w.over)
"""
    )
    assert script.ends() == 0, script.out
    line = next(each for each in script.out.splitlines() if each.startswith("made"))
    assert int(line.split()[1]) >= 190 and line.endswith("True")
    assert cluster.ends() == 0 and "'w' left: the script ended" not in cluster.log


def test_a_worker_is_not_passed_to_processes(cluster):
    cluster.start("asp", stop="max_seconds = 1000")
    with cluster.worker(arrays()) as w:
        child = multiprocessing.get_context("spawn").Process(target=print, args=(w,))
        with pytest.raises(TypeError, match="belongs to this process"):
            child.start()
        torch = pytest.importorskip("torch")
        loader = torch.utils.data.DataLoader(
            [w], num_workers=1, multiprocessing_context="spawn", collate_fn=list
        )
        with pytest.raises(TypeError, match="belongs to this process"):
            iter(loader)


def test_threads_of_openmp(cluster):
    cluster.start(stop="max_steps = 6", model='kind = "own"', data="", training="")
    script = cluster.script(
        """
import torch
torch.set_num_threads(2)
threads = lambda: len(os.listdir("/proc/self/task"))
before = threads()
model = torch.nn.Linear(512, 256)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x = torch.randn(512, 512).exp()
assert threads() > before
with join(model, optimizer) as w:
    for each in w.batches(x, 256):
        loss = model(each.clone().log()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        w.step(loss, len(each))
print("over", w.over)
"""
    )
    assert script.ends() == 0, script.out
    assert "over True" in script.out
    assert cluster.ends() == 0


def test_who_does_not_answer_is_named(cluster, tmp_path):
    """A server that is gone, and a scheduler that hangs."""
    other = Cluster(tmp_path / "other")
    other.place.mkdir()
    try:
        for each in (cluster, other):
            each.start(stop="max_steps = 20")
        cluster.says("server 0")
        cluster.server.kill()
        cluster.server.wait()
        other.scheduler.send_signal(signal.SIGSTOP)
        scripts = [each.script(TRAINS) for each in (cluster, other)]
        scripts[0].says("cannot reach server 0 at tcp://127.0.0.1:")
        scripts[1].says(f"cannot reach the scheduler at {other.endpoint}")
        # It goes on as soon as it can.
        other.scheduler.send_signal(signal.SIGCONT)
        assert scripts[1].ends() == 0, scripts[1].out
        assert "made" in scripts[1].out and other.ends() == 0
    finally:
        other.stop()


# --- several of them, and the log -----------------------------------------------------------------


def test_lines_of_two_workers_have_their_names_and_threads(cluster, caplog):
    caplog.set_level(logging.INFO, "rubato")
    cluster.start(workers=("a", "b"), stop="max_steps = 40")
    threads = {}

    def loop(name):
        threads[name] = threading.get_ident()
        model = arrays()
        with cluster.worker(model, name=name) as w:
            train(w, model)

    in_threads(lambda: loop("a"), lambda: loop("b"))
    seen = [each for each in caplog.records if each.name == "rubato"]
    assert {each.message.split(":")[0] for each in seen} == {"a", "b"}
    for each in seen:  # no thread of the library's enters Python
        assert each.thread == threads[each.message.split(":")[0]]


def test_nothing_is_printed(cluster):
    cluster.start(stop="max_steps = 60")
    script = cluster.script(
        """
logging.getLogger("rubato").setLevel(logging.CRITICAL)
model = arrays()
with join(model) as w:
    train(w, model, 5)
    model["w1"][:] = numpy.nan
    train(w, model)
for _ in range(150):
    w.step(1.0)
"""
    )
    assert script.ends() == 0
    assert script.out == ""


def test_a_jump_that_is_too_large_is_named(cluster, caplog):
    cluster.start(stop="max_steps = 1000")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 30)  # what is usual
        before = model["w1"].copy()
        model["w1"] += 1000
        w.step(1.0, BATCH)
        assert numpy.allclose(model["w1"], before, atol=0.01)
    lines = [each.message for each in caplog.records if "did not take the last" in each.message]
    assert len(lines) == 1 and "step 31" in lines[0] and "w.pull()" in lines[0]
