"""What a Worker asks of a model, whoever made its tensors: _torch.py and _arrays.py answer."""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _abi
from .errors import BadInput

KINDS = {_abi.TRAINED: "trained", _abi.AVERAGED: "averaged", _abi.STILL: "frozen"}


class Entry(NamedTuple):
    """A tensor as the cluster knows it."""

    name: str
    shape: Tuple[int, ...]
    dtype: int  # enum rubato_dtype
    kind: int  # enum rubato_kind


class Model:
    """The tensors of a loop. Each method that reads or writes them runs within a call of Worker."""

    entries: List[Entry]
    aliases: Dict[str, str] = {}  # other names of tensors: what they are called in entries
    has_optimizer = False  # that follow() scales
    scales_rate: bool  # the loop can obey rates

    def out(self) -> Any:
        """Makes what the tensors hold readable. Returns: their addresses, an array of void*."""
        raise NotImplementedError

    def back(self) -> None:
        """The library has written to the addresses of the last out(): moves it into the tensors."""

    def look(self) -> None:
        """Raises BadInput if the model is no longer the one that the worker was opened with."""

    def follow(self, rate: Callable[[], float]) -> None:
        """From now on optimizer steps are scaled by rate()."""

    def unfollow(self) -> None:
        """They no longer are."""

    def learning_rate(self) -> Optional[float]:
        """Of the optimizer's first group, unscaled; None: there is no optimizer here."""
        return None

    def restart(self) -> None:
        """Forgets the optimizer's moments."""

    def save(self) -> Callable[[], None]:
        """Returns: a function that puts the tensors back as they are now."""
        raise NotImplementedError

    def measuring(self) -> ContextManager[None]:
        """Within it the user's evaluation runs, which leaves no trace."""
        raise NotImplementedError


def make_model(model: Any, optimizer: Any, buffers: str) -> Model:
    """BadInput if `model` is nothing that has tensors."""
    if buffers not in ("average", "own"):
        raise BadInput(f'buffers = {buffers!r}: it is "average" or "own"')
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    if torch is not None and isinstance(model, torch.nn.Module):
        from . import _torch

        return _torch.of_module(torch, model, optimizer, buffers)
    items = named(model) or []
    if torch is not None and any(isinstance(each, torch.Tensor) for _, each in items):
        from . import _torch

        return _torch.of_tensors(torch, items, optimizer)
    if numpy is not None and any(isinstance(each, numpy.ndarray) for _, each in items):
        from . import _arrays

        return _arrays.of_arrays(numpy, model, items, optimizer)
    raise BadInput(
        f"model is a {type(model).__name__}: give a torch.nn.Module, its parameters, or a dict of "
        "names and tensors or NumPy arrays"
    )


def named(model: Any) -> Optional[List[Tuple[str, Any]]]:
    """The items of a mapping, or a sequence by number. None: it is neither."""
    if hasattr(model, "keys") and hasattr(model, "__getitem__"):
        return [(str(key), model[key]) for key in model.keys()]
    if isinstance(model, (str, bytes)) or hasattr(model, "shape"):
        return None
    try:
        return [(str(i), each) for i, each in enumerate(model)]
    except TypeError:
        return None


def check_apart(places: Sequence[Tuple[int, int, str]]) -> None:
    """BadInput if two tensors share memory. `places`: address, bytes, name."""
    ordered = sorted(places)
    for (at, size, name), (after, _, other) in zip(ordered, ordered[1:]):
        if after < at + size:
            raise BadInput(f'tensors "{name}" and "{other}" overlap in memory')


class RandomStates:
    """The generators of Python and NumPy, as they were."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy_module = sys.modules.get("numpy")
        if self._numpy_module is not None:
            self._numpy = self._numpy_module.random.get_state()

    def put_back(self) -> None:
        random.setstate(self._python)
        if self._numpy_module is not None:
            self._numpy_module.random.set_state(self._numpy)
