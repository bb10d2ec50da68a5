"""compare, up and study from Python: the command `rubato`, with its results as objects."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from . import errors
from .results import Comparison, draw

if TYPE_CHECKING:
    Path = Union[str, "os.PathLike[str]"]
    Train = Union[str, "os.PathLike[str]", Callable[[], None]]

_LOOK_SECONDS = 0.2
_LEAVE_SECONDS = 10.0


class Progress(NamedTuple):
    """An evaluation of a run that goes on."""

    sync: str
    seed: int
    seconds: float
    steps: int
    loss: float
    accuracy: Optional[float]


def compare(
    cluster: Path,
    train: Optional[Train] = None,
    *,
    sync: Sequence[str] = (),
    seeds: int = 1,
    target_loss: Optional[float] = None,
    threads: int = 0,
    save: bool = False,
    out: Optional[Path] = None,
    progress: Optional[Callable[[Progress], None]] = None,
) -> Comparison:
    """Trains under each sync model on virtual time, as `rubato compare`.

    train     a Python file with a function train(), or that function (which needs cloudpickle);
              default: as the cluster file says
    save      keep the trained models
    out       a new directory for the results
    progress  called with each evaluation
    """
    words = ["--seeds", str(seeds), "--threads", str(threads)]
    if sync:
        words += ["--sync", ",".join([sync] if isinstance(sync, str) else sync)]
    if save:
        words.append("--save")
    return _run("compare", cluster, words, train, target_loss, out, progress)


def up(
    cluster: Path,
    train: Optional[Train] = None,
    *,
    sync: Optional[str] = None,
    seed: Optional[int] = None,
    target_loss: Optional[float] = None,
    throttle: bool = False,
    out: Optional[Path] = None,
    progress: Optional[Callable[[Progress], None]] = None,
) -> Comparison:
    """Trains with real processes on this machine, as `rubato up`."""
    words = []
    if sync is not None:
        words += ["--sync", sync]
    if seed is not None:
        words += ["--seed", str(seed)]
    if throttle:
        words.append("--throttle")
    return _run("up", cluster, words, train, target_loss, out, progress)


def study(
    file: Path,
    *,
    seeds: Optional[int] = None,
    threads: int = 0,
    out: Optional[Path] = None,
) -> str:
    """Runs a study, as `rubato study`. Returns: the directory of its results."""
    directory = _directory(file) if out is None else os.fspath(out)
    words = [os.fspath(file), "--threads", str(threads), "--out", directory, "--quiet"]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    with _Command(["study", *words]) as command:
        while command.running():
            time.sleep(_LOOK_SECONDS)
        command.check()
    return directory


class LivePlot:
    """`progress` for a notebook: curves that grow while the runs train."""

    def __init__(self, x: str = "seconds", y: str = "loss", every: float = 1.0) -> None:
        self._x, self._y, self._every = x, y, every
        self._rows: List[Dict[str, Any]] = []
        self._next = 0.0
        self._shown: Any = None

    def __call__(self, at: Progress) -> None:
        self._rows.append(at._asdict())
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self.show()

    def show(self) -> None:
        import matplotlib.pyplot as pyplot
        from IPython.display import display

        figure, axes = pyplot.subplots()
        draw(axes, self._rows, self._x, self._y)
        if self._shown is None:
            self._shown = display(figure, display_id=True)
        else:
            self._shown.update(figure)
        pyplot.close(figure)


def _run(
    verb: str,
    cluster: Path,
    words: List[str],
    train: Optional[Train],
    target_loss: Optional[float],
    out: Optional[Path],
    progress: Optional[Callable[[Progress], None]],
) -> Comparison:
    directory = _directory(cluster) if out is None else os.fspath(out)
    words = [verb, os.fspath(cluster), *words, "--out", directory]
    words += ["--quiet", "--json", "--missed-ok"]
    if target_loss is not None:
        words += ["--target-loss", repr(float(target_loss))]
    with tempfile.TemporaryDirectory(prefix="rubato-") as scratch:
        if train is not None:
            words += ["--module", _module(train, scratch)]
        with _Command(words) as command:
            follower = _Follower(os.path.join(directory, "run.jsonl"), progress)
            while command.running():
                follower.look()
                time.sleep(_LOOK_SECONDS)
            follower.look()
            command.check()
    return Comparison(directory)


def _directory(file: Path) -> str:
    stem = os.path.splitext(os.path.basename(os.fspath(file)))[0]
    day = time.strftime("%Y%m%d")
    number = 1
    while os.path.exists(os.path.join("out", f"{stem}-{day}-{number}")):
        number += 1
    return os.path.join("out", f"{stem}-{day}-{number}")


def _module(train: Train, scratch: str) -> str:
    if not callable(train):
        return os.fspath(train)
    try:
        import cloudpickle
    except ImportError:
        raise errors.BadInput(
            "a function can be trained where cloudpickle is installed; else write it to a file, "
            "and name that"
        ) from None
    with open(os.path.join(scratch, "train.pickle"), "wb") as file:
        cloudpickle.dump(train, file)
    path = os.path.join(scratch, "notebook.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "import os, pickle\n"
            "with open(os.path.join(os.path.dirname(__file__), 'train.pickle'), 'rb') as file:\n"
            "    train = pickle.load(file)\n"
        )
    return path


def _command() -> str:
    found = os.environ.get("RUBATO_COMMAND") or shutil.which("rubato")
    if not found:
        raise errors.Unsupported(
            "the command rubato is not here: it comes with the package rubato, not with the Python "
            "package (or set RUBATO_COMMAND to its path)"
        )
    return found


class _Command:
    """The command, whose children find this Python and this package."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [_command(), *words]

    def __enter__(self) -> _Command:
        environment = dict(os.environ)
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = [here, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        environment["PATH"] = os.pathsep.join(
            [os.path.dirname(sys.executable), environment.get("PATH", "")]
        )
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=environment,
        )
        return self

    def running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """Raises the command's line, if it failed."""
        code = self._process.wait()
        if code == 0:
            return
        self._errors.seek(0)
        lines = [line.rstrip() for line in self._errors if line.strip()]
        said = [line for line in lines if line.startswith("rubato: ")]
        text = (said or lines or [f"rubato ended with exit code {code}"])[-1]
        text = text[len("rubato: ") :] if text.startswith("rubato: ") else text
        if code == 2:
            raise errors.BadInput(text)
        if code in (129, 130, 143):  # SIGHUP, Ctrl-C, SIGTERM
            raise KeyboardInterrupt
        raise errors.Error(text, "failed")

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._errors.close()


class _Follower:
    """Reads the log of runs while it grows."""

    def __init__(self, path: str, tell: Optional[Callable[[Progress], None]]) -> None:
        self._path, self._tell = path, tell
        self._at = 0
        self._sync, self._seed = "", 0

    def look(self) -> None:
        if self._tell is None or not os.path.exists(self._path):
            return
        with open(self._path, encoding="utf-8") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith("\n"):
                    break
                self._at += len(line.encode())
                self._take(json.loads(line))

    def _take(self, event: Dict[str, Any]) -> None:
        if event.get("event") == "run":
            self._sync, self._seed = event["sync"], event["seed"]
        elif event.get("event") == "evaluation" and self._tell is not None:
            self._tell(
                Progress(
                    self._sync,
                    self._seed,
                    event["seconds"],
                    event["steps"],
                    event["loss"],
                    event.get("accuracy"),
                )
            )
