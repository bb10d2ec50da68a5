"""Mini-batches for a Worker: samples that the cluster file shares out, or a loader's."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import TYPE_CHECKING, Any, Iterator, List, Optional

from . import _abi
from .errors import BadInput

if TYPE_CHECKING:
    from .worker import Worker


def batches(worker: Worker, data: Any, size: Optional[int], labels: Any) -> Iterator[Any]:
    if size is not None and size < 1:
        raise BadInput(f"batches: size = {size}: it is 1 at least")
    if isinstance(data, (tuple, list)) and data and all(_is_column(each) for each in data):
        return _shared_out(worker, list(data), True, size, labels)
    if _is_column(data) or isinstance(data, list):
        return _shared_out(worker, [data], False, size, labels)
    if size is not None:
        raise BadInput(
            f"batches: a {type(data).__name__} makes its own mini-batches: leave size out"
        )
    if labels is not None:
        raise BadInput("batches: labels go with tensors or arrays")
    if not hasattr(data, "__iter__"):
        raise BadInput(
            f"batches: data is a {type(data).__name__}: give tensors, arrays or a DataLoader"
        )
    if iter(data) is data:
        raise BadInput("batches: data ends after one pass: give a list or a DataLoader")
    return _repeated(worker, data)


def _is_column(each: Any) -> bool:
    return hasattr(each, "shape") and hasattr(each, "__getitem__") and len(each.shape) > 0


def _repeated(worker: Worker, loader: Any) -> Iterator[Any]:
    worker._begin()
    while not worker.over:
        made = False
        for batch in loader:
            made = True
            yield batch
            if worker.over:
                return
        if not made:
            raise BadInput("batches: the loader has no mini-batches")
        if worker._is_alone:
            worker._over = True


def _shared_out(
    worker: Worker, columns: List[Any], several: bool, size: Optional[int], labels: Any
) -> Iterator[Any]:
    samples = len(columns[0])
    for column in columns:
        if len(column) != samples:
            raise BadInput(f"batches: data of {samples} samples and of {len(column)}")
    if samples == 0:
        raise BadInput("batches: data has no samples")
    if labels is None and several and len(columns) > 1 and _are_classes(columns[-1]):
        labels = columns[-1]
    if labels is not None and len(labels) != samples:
        raise BadInput(f"batches: {len(labels)} labels of {samples} samples")
    return _drawn(worker, columns, several, size, labels)


def _drawn(
    worker: Worker, columns: List[Any], several: bool, size: Optional[int], labels: Any
) -> Iterator[Any]:
    worker._begin()  # where earlier processes of this name stopped is known then
    samples = len(columns[0])
    if worker._is_alone:
        order = list(range(samples))
        random.Random(worker.seed).shuffle(order)
        step = size or worker.batch
        for at in range(0, samples, step):
            chosen = order[at : at + step]
            picked = [_pick(column, chosen) for column in columns]
            yield tuple(picked) if several else picked[0]
        worker._over = True
        return
    if worker.over:
        return
    _share(worker, labels, samples)
    while not worker.over:
        chosen = _draw(worker, _size(worker, size))
        picked = [_pick(column, chosen) for column in columns]
        yield tuple(picked) if several else picked[0]


def _size(worker: Worker, size: Optional[int]) -> int:
    configured = worker._identity.batch
    if size is None or worker.batch == configured:
        return size or worker.batch
    return max(1, round(size * worker.batch / configured))


def _share(worker: Worker, labels: Any, samples: int) -> None:
    with worker._call():
        numbers = None
        classes = 0
        if labels is not None:
            listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
            numbers = (ctypes.c_int32 * samples)(*listed)
            classes = max(listed) + 1
        own = ctypes.c_size_t()
        code = _abi.lib.rubato_share(
            worker._handle, numbers, samples, classes, ctypes.byref(own)
        )
        if code != _abi.OK:
            worker._fail(code)


def _draw(worker: Worker, count: int) -> List[int]:
    with worker._call():
        chosen = (ctypes.c_uint32 * count)()
        code = _abi.lib.rubato_draw(worker._handle, chosen, count)
        if code != _abi.OK:
            worker._fail(code)
        return list(chosen)


def _are_classes(column: Any) -> bool:
    if len(column.shape) != 1:
        return False
    kind = str(column.dtype)
    return kind.replace("torch.", "").lstrip("u").startswith("int")


def _pick(column: Any, chosen: List[int]) -> Any:
    if isinstance(column, list):
        return [column[i] for i in chosen]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(column, torch.Tensor):
        return column[torch.as_tensor(chosen, device=column.device)]
    return column[chosen]
