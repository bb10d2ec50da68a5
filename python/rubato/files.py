"""The files of a run: safetensors, read without its package."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from .errors import BadInput, Io

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_HEADER_BYTES_MAX = 100_000_000  # as in the safetensors package
_ALIGNMENT = 8  # of the tensors' bytes in a file
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1}
_SIZES["BOOL"] = 1
_TORCH = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def load(
    path: Union[str, "os.PathLike[str]"], model: Optional[Module] = None
) -> Dict[str, Tensor]:
    """Reads a model file of a run, by name, and copies it into `model`.

    Tied tensors are under each of their names. Weights that were frozen in the run are not in its
    file: they stay as they are. Without PyTorch in this process, tensors are NumPy arrays. BadInput
    if the file is damaged or is another model's.
    """
    where = os.fspath(path)
    header, content = _read(where)
    metadata = header.pop("__metadata__", {})
    tensors: Dict[str, Any] = {}
    make = _maker(where, model is not None)
    for name, (kind, shape, begin, end) in _checked(where, header, len(content)).items():
        tensors[name] = make(kind, shape, content[begin:end])
    for alias, name in metadata.items():
        if isinstance(name, str) and name in tensors and alias not in tensors:
            tensors[alias] = tensors[name]
    if model is not None:
        _fill(where, model, tensors, metadata)
    return tensors


def save(
    path: Union[str, "os.PathLike[str]"],
    model: Union[Module, Mapping[str, Tensor]],
    metadata: Optional[Mapping[str, str]] = None,
) -> None:
    """Writes the tensors of a module, or of a dict, so that load() reads them. Tied ones once.

    BadInput if a tensor is of a type that such files do not have.
    """
    where = os.fspath(path)
    tensors: Mapping[str, Any] = model if isinstance(model, Mapping) else model.state_dict()
    header: Dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    kinds = {name: kind for kind, name in _TORCH.items()}
    first: Dict[Any, str] = {}
    parts: List[bytes] = []
    at = 0
    for name, tensor in tensors.items():
        kind = kinds.get(str(tensor.dtype).replace("torch.", ""))
        if kind is None or tensor.is_sparse:
            raise BadInput(f'{where}: tensor "{name}" is of {tensor.dtype}, which is not written')
        kept = first.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride()), name)
        if kept != name and tensor.numel() > 0:
            header["__metadata__"][name] = kept
            continue
        content = _bytes_of(tensor)
        header[name] = {
            "dtype": kind,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(content)],
        }
        parts.append(content)
        at += len(content)
    import json

    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    beside = where + ".part"
    try:
        with open(beside, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))
        os.replace(beside, where)
    except OSError as why:
        raise Io(f"{where}: {why.strerror}") from None


def _bytes_of(tensor: Any) -> bytes:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


def _frozen(path: str, metadata: Dict[str, Any]) -> Set[str]:
    """Names of tensors that the run has neither trained nor written."""
    import json

    try:
        table = json.loads(metadata.get("rubato.own", '{"tensors": []}'))["tensors"]
        return {name for name, _, kind, *_ in table if kind == "still"}
    except (ValueError, TypeError, KeyError):
        raise BadInput(f"{path}: its table of tensors is damaged") from None


def _read(path: str) -> Tuple[Dict[str, Any], memoryview]:
    try:
        with open(path, "rb") as file:
            content = bytearray(file.read())  # may be written to: tensors stand on it
    except OSError as why:
        raise Io(f"{path}: {why.strerror}") from None
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(_HEADER_BYTES_MAX, len(content) - 8):
        raise BadInput(f"{path}: is no safetensors file")
    import json

    try:
        header = json.loads(content[8 : 8 + length].decode())
    except ValueError:
        raise BadInput(f"{path}: is no safetensors file: its header is no JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise BadInput(f"{path}: is no safetensors file: its header is no table")
    return header, memoryview(content)[8 + length :]


Found = Tuple[str, List[int], int, int]


def _checked(path: str, header: Dict[str, Any], size: int) -> Dict[str, Found]:
    found: Dict[str, Found] = {}
    for name, entry in header.items():
        try:
            kind, shape = entry["dtype"], [int(each) for each in entry["shape"]]
            begin, end = (int(each) for each in entry["data_offsets"])
        except (TypeError, KeyError, ValueError):
            raise BadInput(f'{path}: tensor "{name}" is not described') from None
        if kind not in _SIZES:
            raise BadInput(f'{path}: tensor "{name}" is of {kind}, which is not read here')
        count = 1
        for each in shape:
            count *= each
        if min(shape, default=0) < 0 or not 0 <= begin <= end <= size:
            raise BadInput(f'{path}: tensor "{name}" is not within the file, which may be cut off')
        if end - begin != count * _SIZES[kind]:
            raise BadInput(f'{path}: tensor "{name}" has {end - begin} bytes, not of its shape')
        found[name] = (kind, shape, begin, end)
    return found


def _imported(name: str) -> Any:
    """The module; None if it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _maker(path: str, needs_torch: bool) -> Any:
    """A function of type, shape and bytes that makes a tensor."""
    torch: Any = sys.modules.get("torch")
    numpy: Any = None
    if torch is None and not needs_torch:
        numpy = _imported("numpy")
    if torch is None and numpy is None:
        torch = _imported("torch")
        if torch is None:
            raise BadInput(f"{path}: neither PyTorch nor NumPy is installed")
    if torch is None:

        def array(kind: str, shape: List[int], content: memoryview) -> Any:
            if kind == "BF16":  # the upper half of a float32
                halves = numpy.frombuffer(content, "<u2").astype("<u4") << 16
                return halves.view("<f4").reshape(shape)
            return numpy.frombuffer(content, _TORCH[kind]).reshape(shape)

        return array

    def tensor(kind: str, shape: List[int], content: memoryview) -> Any:
        dtype = getattr(torch, _TORCH[kind])
        if len(content) == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)

    return tensor


def _fill(path: str, model: Any, tensors: Dict[str, Any], metadata: Dict[str, Any]) -> None:
    """Copies the tensors into the module, all or none. Frozen ones stay as they are."""
    import torch

    from ._torch import places

    wanted = places(model)
    names = {place.name for place in wanted}
    if "rubato.model" in metadata and not names <= set(tensors):
        tensors = _by_order(path, wanted, tensors)
    told = {id(place.now()): place.name for place in wanted if place.name in tensors}
    for place in wanted:
        if id(place.now()) in told:  # tied weights, whichever name the file has
            tensors.setdefault(place.name, tensors[told[id(place.now())]])
    frozen = _frozen(path, metadata)
    missing = [
        place.name
        for place in wanted
        if place.name not in tensors
        and place.now().is_floating_point()
        and place.name not in frozen
    ]
    strange = sorted(set(tensors) - names)
    if missing or strange:
        raise BadInput(
            f"{path}: is another model's: "
            + "; ".join(
                text + ", ".join(f'"{name}"' for name in list_[:5]) + (", ..." if list_[5:] else "")
                for text, list_ in (("it lacks ", missing), ("the model lacks ", strange))
                if list_
            )
        )
    for place in wanted:
        if place.name in tensors and tensors[place.name].shape != place.now().shape:
            raise BadInput(
                f'{path}: tensor "{place.name}" is {list(tensors[place.name].shape)}, and the '
                f"model's is {list(place.now().shape)}"
            )
    with torch.no_grad():
        for place in wanted:
            if place.name in tensors:
                place.now().copy_(tensors[place.name])


_PARTS = ["weight", "weight_ih_l0", "weight_hh_l0", "bias", "bias_ih_l0", "bias_hh_l0"]


def _by_order(path: str, wanted: List[Any], tensors: Dict[str, Any]) -> Dict[str, Any]:
    """A built-in model has names of its own, such as "conv1.weight": its tensors go into the
    parameters layer by layer."""

    def layer(name: str) -> Tuple[bool, int, int]:
        kind, _, part = name.partition(".")
        return kind.startswith("dense"), int("".join(filter(str.isdigit, kind))), _PARTS.index(part)

    parameters = [place for place in wanted if not place.buffer]
    try:
        names = sorted(tensors, key=layer)
    except ValueError:
        raise BadInput(f"{path}: has names that no built-in model has") from None
    if len(parameters) != len(names):
        raise BadInput(
            f"{path}: has {len(names)} tensors of a built-in model, and this one has "
            f"{len(parameters)} parameters"
        )
    return {place.name: tensors[name] for place, name in zip(parameters, names)}
