"""Rubato trains one model on many unequal machines. Your loop joins in three lines:

    import rubato
    with rubato.Worker("edge.toml", model, optimizer) as w:
        for x, y in w.batches((inputs, labels), 32):
            ...
            w.step(loss, len(x))

Neither PyTorch nor NumPy is imported here: the objects that you pass bring theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _abi
from .errors import BadInput, Error, Gone, Io, Refused, Timeout, Unsupported
from .files import load, save
from .worker import Identity, Worker, this

if TYPE_CHECKING:
    from ._layers import layers
    from .results import Comparison, Run
    from .run import LivePlot, Progress, compare, study, up

__version__: str = _abi.lib.rubato_version().decode()

__all__ = [
    "BadInput",
    "Comparison",
    "Error",
    "Gone",
    "Identity",
    "Io",
    "LivePlot",
    "Progress",
    "Refused",
    "Run",
    "Timeout",
    "Unsupported",
    "Worker",
    "compare",
    "layers",
    "load",
    "save",
    "study",
    "this",
    "up",
]

_LATER = {
    "Comparison": "results",
    "LivePlot": "run",
    "Progress": "run",
    "Run": "results",
    "compare": "run",
    "layers": "_layers",
    "study": "run",
    "up": "run",
}


def __getattr__(name: str) -> Any:
    """A worker needs none of these, so they are imported when they are asked for."""
    if name not in _LATER:
        raise AttributeError(f"module 'rubato' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f".{_LATER[name]}", __name__), name)
