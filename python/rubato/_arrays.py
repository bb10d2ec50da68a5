"""Models of NumPy arrays."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Callable, Iterator, List, Tuple

from . import _abi
from ._model import Entry, Model, RandomStates, check_apart
from .errors import BadInput

_DTYPES = {
    "float32": _abi.F32,
    "float64": _abi.F64,
    "float16": _abi.F16,
    "bfloat16": _abi.BF16,  # of the package ml_dtypes
}


def of_arrays(numpy: Any, model: Any, items: List[Tuple[str, Any]], optimizer: Any) -> Model:
    """`items`: those of `model`."""
    for name, each in items:
        if not isinstance(each, numpy.ndarray):
            raise BadInput(f'"{name}" is a {type(each).__name__}, and other tensors are arrays')
    if optimizer is not None:
        raise BadInput("optimizer goes with PyTorch: multiply your learning rate by w.rate instead")
    return ArrayModel(numpy, model, items)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


class ArrayModel(Model):
    scales_rate = True  # Worker checks that w.rate is read

    def __init__(self, numpy: Any, source: Any, items: List[Tuple[str, Any]]) -> None:
        self._numpy = numpy
        # What the user may put another array into.
        self._source = source if hasattr(source, "__getitem__") else None
        self._by_number = not hasattr(source, "keys")
        self._arrays = [array for _, array in items]
        self._stages = [None if array.flags.c_contiguous else numpy.empty_like(array, order="C")
                        for array in self._arrays]
        self.entries = [self._entry(name, array) for name, array in items]
        check_apart([(_address(array), array.nbytes, entry.name)
                     for entry, array in zip(self.entries, self._arrays)
                     if array.flags.c_contiguous])
        self._addresses = (ctypes.c_void_p * len(items))()

    def _entry(self, name: str, array: Any) -> Entry:
        if array.dtype.name not in _DTYPES or not array.dtype.isnative:
            raise BadInput(
                f'array "{name}" is of {array.dtype.str}: float32, float64 and float16 in the byte '
                "order of this machine can be trained"
            )
        if not array.flags.writeable:
            raise BadInput(f'array "{name}" is read-only: give a copy')
        return Entry(name, tuple(array.shape), _DTYPES[array.dtype.name], _abi.TRAINED)

    def look(self) -> None:
        for i, (entry, array) in enumerate(zip(self.entries, self._arrays)):
            if self._source is not None:
                now = self._source[i] if self._by_number else self._source.get(entry.name)
                if now is not array:
                    raise BadInput(
                        f'array "{entry.name}" was replaced by another object: change its elements '
                        "in place, such as w[...] = or w -="
                    )
            if array.shape != entry.shape or _DTYPES.get(array.dtype.name) != entry.dtype:
                raise BadInput(f'array "{entry.name}" has another shape or type than before')

    def out(self) -> Any:
        self.look()
        for i, (array, stage) in enumerate(zip(self._arrays, self._stages)):
            if stage is not None:
                self._numpy.copyto(stage, array)
            self._addresses[i] = _address(array if stage is None else stage)
        return self._addresses

    def back(self) -> None:
        for array, stage in zip(self._arrays, self._stages):
            if stage is not None:
                self._numpy.copyto(array, stage)

    def save(self) -> Callable[[], None]:
        kept = [array.copy() for array in self._arrays]

        def put_back() -> None:
            for array, copy in zip(self._arrays, kept):
                self._numpy.copyto(array, copy)

        return put_back

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        states = RandomStates()
        try:
            yield
        finally:
            states.put_back()
