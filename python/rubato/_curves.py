"""What a worker notes of its steps, where RUBATO_CURVES names a directory: a CSV file each."""

from __future__ import annotations

import csv
import itertools
import logging
import math
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

logger = logging.getLogger("rubato")

COLUMNS = ("seconds", "steps", "commits", "loss", "learning_rate", "rate", "samples")
_NAN = math.nan
_ROWS_MAX = 2000  # of a file; a longer curve has every second point, then every fourth, ...


class Notes:
    """Of one process of a worker. Its file is written when it has twice as many rows as before, so
    that a process that is killed leaves half of them, and at the end."""

    def __init__(self, directory: str, sync: str, seed: int, name: str) -> None:
        self._folder = os.path.join(directory, f"{sync}-{seed}")
        self._name = name
        self._path: Optional[str] = None  # of the file, once there is one
        self._due = 8  # rows
        self._failed = False
        self._rows: List[Sequence[float]] = []
        self._steps_a_row = 1
        self._steps = 0  # since the last row
        self._loss, self._samples = 0.0, 0

    def step(
        self, turn: Any, loss_sum: float, samples: int, learning_rate: Optional[float], rate: float
    ) -> None:
        """loss_sum, samples  of the mini-batch; 0 samples: its loss was not read yet."""
        if loss_sum == loss_sum:  # no NaN
            self._loss += loss_sum
            self._samples += samples
        self._steps += 1
        if self._steps < self._steps_a_row:
            return
        self._rows.append(
            (
                turn.seconds,
                turn.earlier_steps + turn.steps,
                turn.commits,
                self._loss / self._samples if self._samples else _NAN,
                _NAN if learning_rate is None else learning_rate * rate,
                rate,
                self._samples / self._steps,
            )
        )
        self._steps = 0
        self._loss, self._samples = 0.0, 0
        if len(self._rows) >= self._due:
            self._write_due()

    def _write_due(self) -> None:
        if len(self._rows) >= _ROWS_MAX:
            self._rows = [_merged(*pair) for pair in zip(self._rows[::2], self._rows[1::2])]
            self._steps_a_row *= 2
        self._due = min(2 * len(self._rows), _ROWS_MAX)
        self.write()

    def _choose(self) -> str:
        """A new file. Earlier processes of this name keep theirs."""
        os.makedirs(self._folder, exist_ok=True)
        for number in itertools.count():
            more = f"~{number}" if number else ""
            path = os.path.join(self._folder, f"{self._name}{more}.csv")
            if not os.path.exists(path):
                return path
        raise AssertionError

    def write(self) -> None:
        if not self._rows or self._failed:
            return
        try:
            self._path = self._path or self._choose()
            self._write(self._path)
        except OSError as why:
            self._failed = True
            logger.warning("%s: its curves are not written: %s", self._name, why)

    def _write(self, path: str) -> None:
        beside = path + ".part"
        with open(beside, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for row in self._rows:
                writer.writerow("" if math.isnan(each) else f"{each:.9g}" for each in row)
        os.replace(beside, path)


def _merged(one: Sequence[float], other: Sequence[float]) -> Sequence[float]:
    """The second row, with the mean loss of both."""
    if math.isnan(other[3]) or math.isnan(one[3]):
        loss = one[3] if math.isnan(other[3]) else other[3]
    else:
        loss = (one[3] + other[3]) / 2
    return (*other[:3], loss, *other[4:])


def read(directory: str, sync: str, seed: int) -> Iterator[Tuple[str, Dict[str, float]]]:
    """Names of workers, and rows of their files; several processes in the order of their steps."""
    folder = os.path.join(directory, f"{sync}-{seed}")
    found: Dict[str, List[Dict[str, float]]] = {}
    for file_name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if not file_name.endswith(".csv"):
            continue
        with open(os.path.join(folder, file_name), encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                values = {name: float(row.get(name) or "nan") for name in COLUMNS}
                found.setdefault(file_name[: -len(".csv")].split("~")[0], []).append(values)
    for name, rows in found.items():
        for each in sorted(rows, key=lambda values: values["steps"]):
            yield name, each
