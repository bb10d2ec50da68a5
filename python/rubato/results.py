"""What a comparison or a run has left: figures, curves, tables and pictures."""

from __future__ import annotations

import csv
import html
import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from .errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    Path = Union[str, "os.PathLike[str]"]

_COLUMNS = ("seconds", "steps", "commits", "loss", "accuracy", "judged_loss", "judged_accuracy")


@dataclass(frozen=True)
class Run:
    """One run of one sync model."""

    sync: str
    seed: int
    time_to_target: Optional[float]  # seconds; None: the target was not reached
    seconds: float
    steps: int  # of all workers, as the next ones
    commits: int
    bytes_up: int
    bytes_down: int
    compute_share: float  # of the workers' time, as the next ones
    wait_share: float
    communicate_share: float
    loss: float  # the last one
    accuracy: float
    stop_reason: str
    workers: List[Dict[str, Any]] = field(repr=False)
    curve: Dict[str, List[float]] = field(repr=False)  # seconds, steps, commits, loss, ...
    model: Optional[str] = None  # the file of the lowest loss, where the run has kept one


class Comparison:
    """Runs with one target, as `rubato compare` or `rubato up` has left them in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = os.fspath(directory)
        try:
            with open(os.path.join(self.directory, "results.json"), encoding="utf-8") as file:
                self._json: Dict[str, Any] = json.load(file)
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.directory}: no results of a run are here ({error})") from None
        curves = _read_curves(os.path.join(self.directory, "curves.csv"))
        self.runs = [
            _run(each, curves.get((each["sync"], each["seed"]), {}), self.directory)
            for each in self._json["runs"]
        ]

    @property
    def cluster(self) -> str:
        return str(self._json["cluster"])

    @property
    def target(self) -> Dict[str, Any]:
        """What a run had to reach: {"loss": 0.3}, for one."""
        return dict(self._json["target"])

    @property
    def virtual(self) -> bool:
        """The times are virtual."""
        return bool(self._json["time"] == "virtual")

    @property
    def report(self) -> str:
        """The page with all of it."""
        return os.path.join(self.directory, "report.html")

    @property
    def best(self) -> Run:
        """The run that was first at the target; of none, the one with the lowest loss."""
        return min(
            self.runs,
            key=lambda run: (
                math.inf if run.time_to_target is None else run.time_to_target,
                math.inf if math.isnan(run.loss) else run.loss,
            ),
        )

    def curves(self) -> List[Dict[str, Any]]:
        """One row an evaluation: sync, seed, seconds, steps, commits, loss, accuracy."""
        rows: List[Dict[str, Any]] = []
        for run in self.runs:
            for values in zip(*run.curve.values()):
                rows.append({"sync": run.sync, "seed": run.seed, **dict(zip(run.curve, values))})
        return rows

    def worker_curves(self) -> List[Dict[str, Any]]:
        """Rows of each worker's steps: sync, seed, worker, seconds, steps, commits, loss (of
        training), learning_rate, rate (its part that the sync model gives), samples (of a
        mini-batch). Of loops in Python; none if they noted nothing."""
        from ._curves import read

        notes = os.path.join(self.directory, "curves")
        return [
            {"sync": run.sync, "seed": run.seed, "worker": worker, **row}
            for run in self.runs
            for worker, row in read(notes, run.sync, run.seed)
        ]

    def to_pandas(self) -> DataFrame:
        """One row a run."""
        import pandas

        names = [name for name in Run.__dataclass_fields__ if name not in ("workers", "curve")]
        return pandas.DataFrame([{name: getattr(run, name) for name in names} for run in self.runs])

    def curves_to_pandas(self) -> DataFrame:
        import pandas

        return pandas.DataFrame(self.curves())

    def worker_curves_to_pandas(self) -> DataFrame:
        import pandas

        return pandas.DataFrame(self.worker_curves())

    def to_tensorboard(self, directory: Path) -> List[str]:
        """Writes the curves as event files of TensorBoard, each run in a folder of its own.

        A step is one of any worker; the time of an event is that of the run, virtual or real.
        Training loss and learning rate of each worker are in folders below, by its own steps.
        Returns: the files.
        """
        from ._events import EventFile

        began = os.path.getmtime(os.path.join(self.directory, "results.json"))
        curves: Dict[str, List[Dict[str, Any]]] = {}
        for row in self.curves():
            curves.setdefault(f"{row['sync']}-{row['seed']}", []).append(row)
        for row in self.worker_curves():
            named = {"training_loss": row["loss"], "learning_rate": row["learning_rate"]}
            at = f"{row['sync']}-{row['seed']}/{row['worker']}"
            curves.setdefault(at, []).append(
                {"seconds": row["seconds"], "steps": row["steps"], **named}
            )
        paths = []
        for place, rows in curves.items():
            folder = os.path.join(os.fspath(directory), place)
            os.makedirs(folder, exist_ok=True)
            paths.append(os.path.join(folder, f"events.out.tfevents.{int(began)}.rubato"))
            with EventFile(paths[-1], began) as file:
                for name in (*_COLUMNS[3:], "training_loss", "learning_rate"):
                    for row in rows:
                        if not math.isnan(row.get(name, math.nan)):
                            seconds = 0.0 if math.isnan(row["seconds"]) else row["seconds"]
                            file.scalar(name, seconds, int(row["steps"]), row[name])
        return paths

    def plot(self, x: str = "seconds", y: str = "loss", axes: Optional[Axes] = None) -> Axes:
        """Curves of all runs, one colour a sync model. `x`, `y`: columns of curves()."""
        import matplotlib.pyplot as pyplot

        if axes is None:
            axes = pyplot.subplots()[1]
        draw(axes, self.curves(), x, y)
        goal = self.target.get(y)
        if goal is not None:
            axes.axhline(goal, color="grey", linewidth=0.8, linestyle="--")
        return axes

    def __repr__(self) -> str:
        return "\n".join(" ".join(cells) for cells in _table(self.runs))

    def _repr_html_(self) -> str:
        head, *rows = _table(self.runs, pad=False)
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def draw(axes: Axes, rows: Sequence[Dict[str, Any]], x: str, y: str) -> None:
    """Draws curves into axes, one colour a sync model."""
    if rows and (x not in rows[0] or y not in rows[0]):
        raise BadInput(f"plot: columns are {', '.join(rows[0])}; not {x} and {y}")
    models: Dict[str, str] = {}
    groups: Dict[Any, List[Dict[str, Any]]] = {}
    for row in rows:
        models.setdefault(row["sync"], f"C{len(models) % 10}")
        groups.setdefault((row["sync"], row["seed"]), []).append(row)
    named = set()
    for (sync, _), group in groups.items():
        axes.plot(
            [row[x] for row in group],
            [row[y] for row in group],
            color=models[sync],
            label=None if sync in named else sync,
        )
        named.add(sync)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if named:
        axes.legend()


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _run(row: Dict[str, Any], curve: Dict[str, List[float]], directory: str) -> Run:
    of_one = os.path.join(directory, f"{row['sync']}-{row['seed']}", "best.safetensors")
    of_all = os.path.join(directory, "best.safetensors")
    model = next((path for path in (of_one, of_all) if os.path.exists(path)), None)
    return Run(
        sync=row["sync"],
        seed=row["seed"],
        time_to_target=row.get("time_to_target_s"),
        seconds=row["seconds"],
        steps=row["steps"],
        commits=row["commits"],
        bytes_up=row["bytes_up"],
        bytes_down=row["bytes_down"],
        compute_share=_number(row.get("compute_share")),
        wait_share=_number(row.get("wait_share")),
        communicate_share=_number(row.get("communicate_share")),
        loss=_number(row.get("final_loss")),
        accuracy=_number(row.get("final_accuracy")),
        stop_reason=row["stop_reason"],
        workers=row["workers"],
        curve=curve,
        model=model,
    )


def _read_curves(path: str) -> Dict[Any, Dict[str, List[float]]]:
    curves: Dict[Any, Dict[str, List[float]]] = {}
    if not os.path.exists(path):
        return curves
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            curve = curves.setdefault((row["sync"], int(row["seed"])), {})
            for name in _COLUMNS:
                if name in row:
                    curve.setdefault(name, []).append(float(row[name] or "nan"))
    return curves


def _table(runs: Sequence[Run], pad: bool = True) -> List[List[str]]:
    rows = [["sync", "seed", "time to target", "steps", "commits", "up", "loss", "accuracy"]]
    for run in runs:
        rows.append(
            [
                run.sync,
                str(run.seed),
                "not reached" if run.time_to_target is None else f"{run.time_to_target:.4g} s",
                f"{run.steps:,}",
                f"{run.commits:,}",
                f"{run.bytes_up / 1e6:.4g} MB",
                f"{run.loss:.4f}",
                "-" if math.isnan(run.accuracy) else f"{100 * run.accuracy:.1f} %",
            ]
        )
    if not pad:
        return rows
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        for i, width in enumerate(widths):
            row[i] = row[i].ljust(width) if i == 0 else row[i].rjust(width)
    return rows
