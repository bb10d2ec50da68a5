"""A cluster of real processes on loopback, whose workers are the loops of the tests."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import pytest

import rubato

pytest.importorskip("numpy")
from loops import BATCH, CLASSES, FEATURES, HIDDEN, SAMPLES, arrays, train  # noqa: E402, F401

TREE = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("RUBATO_COMMAND", str(TREE / "build/dev/cli/rubato"))
DEADLINE = 30  # seconds, of any wait

DATA = (
    f'[dataset]\nkind = "blobs"\nspread = 0.5\nsamples = {SAMPLES}\n'
    f"features = {FEATURES}\nclasses = {CLASSES}"
)


def pytest_configure() -> None:
    # A shell that starts tests in the background has it ignored, and so would the loops.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for variable in [each for each in os.environ if each.startswith("RUBATO_")]:
        if variable not in ("RUBATO_COMMAND", "RUBATO_LIBRARY"):
            del os.environ[variable]


def loops_need(name: str) -> None:
    """Skips a file whose loops, in processes of their own, need a package."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)


def wait_until(true: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {DEADLINE} s")


def command(place: Path, *words: str) -> str:
    """`rubato` with these words, in `place`. Returns what it prints; fails if it does."""
    here = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # this python3
    package = str(Path(rubato.__file__).parents[1])
    done = subprocess.run(
        [COMMAND, *words],
        cwd=place,
        env=dict(os.environ, PYTHONPATH=package, PATH=here),
        capture_output=True,
        text=True,
        timeout=300,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    return text


class Cluster:
    """`rubato scheduler` and `rubato server`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.file = place / "cluster.toml"
        self._processes: List[subprocess.Popen[bytes]] = []

    def write(
        self,
        workers: Sequence[str] = ("w",),
        stop: str = "max_steps = 40",
        model: str = f'kind = "mlp"\nhidden = [{HIDDEN}]',
        more: str = "",
        training: str = "learning_rate = 0.05",
        data: str = DATA,
    ) -> None:
        listed = "".join(
            f'[[workers]]\nname = "{name}"\nstep_seconds = 0.005\n' for name in workers
        )
        self.file.write_text(
            f'name = "test"\n{listed}[servers]\ncount = 1\n[model]\n{model}\n'
            f"{data}\n"
            f"[training]\nbatch = {BATCH}\n{training}\n"
            "[evaluation]\ninterval_seconds = 0.05\n"
            f"[stop]\n{stop}\n{more}\n"
        )

    def start(
        self,
        sync: str = "bsp",
        again: bool = False,
        keys: Optional[Path] = None,
        **written: Any,
    ) -> Cluster:
        """`again`: with the file that is there."""
        if not again:
            self.write(**written)
        self.sync = sync
        bind = ("--bind", "tcp://127.0.0.1:*")
        its, server = ((), ()) if keys is None else (
            ("--keys", str(keys / "scheduler")),
            ("--keys", str(keys / "server-0"), "--name", "server-0"),
        )
        self.scheduler = self._run("scheduler", *bind, *its, "--out", "out", "--overwrite")
        found = wait_until(
            lambda: re.search(r"listens on (tcp://127[0-9.:]+)", self.log) or self._ended(),
            "the scheduler listens",
        )
        assert isinstance(found, re.Match), self.log
        self.endpoint = found.group(1)
        self.server = self._run("server", "--scheduler", self.endpoint, *server)
        return self

    def command(self, name: str, file: Optional[Path] = None) -> subprocess.Popen[bytes]:
        """Runs `rubato worker`, with its log in NAME.log. `file`: a box may have one of its own."""
        its = ("--scheduler", self.endpoint, "--name", name)
        return self._run("worker", *its, file=file, log=name)

    def _run(
        self, role: str, *words: str, file: Optional[Path] = None, log: Optional[str] = None
    ) -> subprocess.Popen[bytes]:
        with open(self.place / f"{log or role}.log", "wb") as out:
            process = subprocess.Popen(
                [COMMAND, role, str(file or self.file), "--sync", self.sync, *words],
                cwd=self.place,
                stdout=out,
                stderr=out,
            )
        self._processes.append(process)
        return process

    def _ended(self) -> bool:
        return self.scheduler.poll() is not None

    @property
    def log(self) -> str:
        return (self.place / "scheduler.log").read_text()

    def says(self, words: str) -> None:
        try:
            wait_until(lambda: words in self.log, words)
        except AssertionError:
            raise AssertionError(f"{words}: not in\n{self.log}") from None

    def worker(self, model: Any, *rest: Any, **options: Any) -> rubato.Worker:
        options.setdefault("name", None)
        return rubato.Worker(
            self.file, model, *rest, scheduler=self.endpoint, sync=self.sync, **options
        )

    def script(self, code: str, name: str = "w", **environment: str) -> Script:
        """Runs `code` in a process of its own; `join()` there makes the worker."""
        script = Script(
            self.place,
            code,
            dict(
                os.environ,
                RUBATO_FILE=str(self.file),
                RUBATO_SCHEDULER=self.endpoint,
                RUBATO_SYNC=self.sync,
                RUBATO_NAME=name,
                **environment,
            ),
        )
        self._processes.append(script.process)
        return script

    def ends(self) -> int:
        return self.scheduler.wait(DEADLINE)

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            process.wait(DEADLINE)
            if process.stdout:
                process.stdout.close()


PRELUDE = """
import logging, os, signal, sys, threading, time
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
import numpy, rubato
from loops import arrays, train, FEATURES, HIDDEN, CLASSES, SAMPLES, BATCH
def join(model=None, *rest, **options):
    return rubato.Worker("", arrays() if model is None else model, *rest, **options)
"""


class Script:
    def __init__(self, place: Path, code: str, environment: Dict[str, str]) -> None:
        self.out_file = place / f"script-{time.monotonic_ns()}.log"
        paths = [str(Path(__file__).parent), str(Path(rubato.__file__).parents[1])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        environment["PYTHONFAULTHANDLER"] = "1"
        with open(self.out_file, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "dev", "-u", "-c", PRELUDE + code],
                cwd=place,
                env=environment,
                stdout=out,
                stderr=out,
            )

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    def says(self, words: str) -> None:
        try:
            wait_until(lambda: words in self.out or self.process.poll() is not None, words)
            assert words in self.out
        except AssertionError:
            raise AssertionError(f"{words}: not in\n{self.out}") from None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        return self.process.wait(DEADLINE)


def in_threads(*functions: Callable[[], Any]) -> List[Any]:
    """Calls all at once. Returns: what they return; raises what the first raises."""
    results: List[Any] = [None] * len(functions)
    errors: List[BaseException] = []

    def call(i: int) -> None:
        try:
            results[i] = functions[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    return results


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()
