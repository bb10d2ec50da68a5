"""Rubato trains one model on many unequal machines. Your loop joins in three lines:

    import rubato
    with rubato.Worker("edge.toml", model, optimizer) as w:
        for x, y in w.batches((inputs, labels), 32):
            ...
            w.step(loss, len(x))

Neither PyTorch nor NumPy is imported here: the objects that you pass bring theirs.
"""

from . import _abi
from .errors import BadInput, Error, Gone, Io, Refused, Timeout, Unsupported
from .files import load
from .results import Comparison, Run
from .run import LivePlot, Progress, compare, study, up
from .worker import Identity, Worker, this

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
    "load",
    "study",
    "this",
    "up",
]
