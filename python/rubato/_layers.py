"""layers(): a PyTorch model of known layers, for boxes without Python."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Tuple, Union

from .errors import BadInput
from .files import save

if TYPE_CHECKING:
    from torch.nn import Module

_KNOWN = "Linear, Conv2d, MaxPool2d, ReLU and Flatten, in a torch.nn.Sequential"


def layers(
    model: Module,
    input_shape: Union[int, Sequence[int]],
    path: Union[str, "os.PathLike[str]"],
) -> None:
    """Writes the layers of a model, and its values, to a file for `model.layers` of a cluster file.

    `rubato worker` then trains these layers itself, beside loops in Python: it needs no PyTorch.

    model        a torch.nn.Sequential of Linear, Conv2d, MaxPool2d, ReLU and Flatten
    input_shape  of a sample: the number of its features, or (channels, height, width)
    path         the file, in the format of safetensors; model.start takes it, too
    BadInput     a layer that Rubato does not have, by its name
    """
    shape = [input_shape] if isinstance(input_shape, int) else [int(size) for size in input_shape]
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise BadInput(
            f"layers: a sample of the shape {tuple(shape)}; give the number of features, or "
            "(channels, height, width)"
        )
    found: List[Dict[str, Any]] = []
    tensors: Dict[str, Any] = {}
    numbers: Dict[str, int] = {}
    for name, module in _leaves("", model):
        layer = _layer(name, module)
        if layer is None:
            continue
        found.append(layer)
        kind = layer["kind"]
        numbers[kind] = numbers.get(kind, 0) + 1
        if kind in ("dense", "conv"):
            for part in ("weight", "bias"):  # copies: layers that share theirs are two here
                values = getattr(module, part).detach().float().clone()
                tensors[f"{kind}{numbers[kind]}.{part}"] = values
    if not found or found[-1]["kind"] != "dense":
        raise BadInput(
            "layers: the last layer is a Linear: its outputs are the classes, or the number"
        )
    outputs = found[-1]["outputs"]
    described = {
        "version": 1,
        "name": "layers",
        "input": [*shape, 1, 1][:3],
        "classes": outputs,
        "loss": "mean-squared-error" if outputs == 1 else "softmax-cross-entropy",
        "layers": found,
    }
    save(path, tensors, {"rubato.model": json.dumps(described)})


def _leaves(name: str, module: Any) -> Iterator[Tuple[str, Any]]:
    if type(module).__name__ != "Sequential":
        yield name or "the model", module
        return
    for inner, child in module.named_children():
        yield from _leaves(f"{name}.{inner}" if name else inner, child)


def _pair(value: Any) -> List[int]:
    height, width = value if isinstance(value, (tuple, list)) else (value, value)
    return [int(height), int(width)]


def _layer(name: str, module: Any) -> Any:
    """The layer as the file has it; None: it does nothing here."""
    kind = type(module).__name__

    def refuse(why: str) -> BadInput:
        return BadInput(f"layers: {name} is a {kind} {why}")

    if kind == "Linear":
        if module.bias is None:
            raise refuse("without bias, which Rubato does not have")
        return {"kind": "dense", "outputs": module.out_features}
    if kind == "Conv2d":
        plain = module.groups == 1 and _pair(module.dilation) == [1, 1]
        if not plain or module.padding_mode != "zeros" or isinstance(module.padding, str):
            raise refuse("with groups, dilation or another padding, which Rubato does not have")
        if module.bias is None:
            raise refuse("without bias, which Rubato does not have")
        return {
            "kind": "conv",
            "channels": module.out_channels,
            "kernel": _pair(module.kernel_size),
            "stride": _pair(module.stride),
            "padding": _pair(module.padding),
        }
    if kind == "MaxPool2d":
        if module.ceil_mode or _pair(module.dilation) != [1, 1]:
            raise refuse("with ceil_mode or dilation, which Rubato does not have")
        padding = _pair(module.padding)
        return {
            "kind": "maxpool",
            "kernel": _pair(module.kernel_size),
            "stride": _pair(module.stride),
            "padding_begin": padding,
            "padding_end": padding,
        }
    if kind == "ReLU":
        return {"kind": "relu"}
    if kind == "Flatten":
        if module.start_dim != 1 or module.end_dim != -1:
            raise refuse("of some dimensions only; flatten from the first one on")
        return None
    raise refuse(f"layer; Rubato knows {_KNOWN}")
