"""Models of PyTorch: a Module, its parameters, or a dict of tensors. PyTorch 1.13 or newer."""

from __future__ import annotations

import contextlib
import ctypes
import types
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import _abi
from ._model import Entry, Model, RandomStates, check_apart
from .errors import BadInput

_WRAPPERS = {"DataParallel", "DistributedDataParallel"}  # their only child is called "module"
_COMPILED = "_orig_mod."  # what torch.compile puts in front


class Place(NamedTuple):
    """Where a tensor of a module is found, though another one may take its place."""

    name: str
    module: Any
    key: str
    buffer: bool

    def now(self) -> Any:
        return (self.module._buffers if self.buffer else self.module._parameters).get(self.key)


def _clean(module: Any, name: str) -> str:
    if type(module).__name__ in _WRAPPERS and name.startswith("module."):
        name = name[len("module.") :]
    return name.replace(_COMPILED, "")


def places(module: Any) -> List[Place]:
    """All parameters and all buffers of the state_dict, in its order, aliases too."""
    found = []
    for prefix, each in module.named_modules(remove_duplicate=False):
        dot = prefix + "." if prefix else ""
        for key, parameter in each._parameters.items():
            if parameter is not None:
                found.append(Place(_clean(module, dot + key), each, key, False))
        for key, buffer in each._buffers.items():
            if buffer is not None and key not in each._non_persistent_buffers_set:
                found.append(Place(_clean(module, dot + key), each, key, True))
    return found


def dtypes(torch: Any) -> Dict[Any, int]:
    return {
        torch.float32: _abi.F32,
        torch.float64: _abi.F64,
        torch.float16: _abi.F16,
        torch.bfloat16: _abi.BF16,
        torch.int64: _abi.I64,
    }


def floating(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())


def _entry(torch: Any, name: str, tensor: Any, kind: int) -> Entry:
    why = None
    if torch.nn.parameter.is_lazy(tensor):
        why = "has no shape yet: run one mini-batch first"
    elif tensor.layout != torch.strided:
        why = "is sparse"
    elif tensor.is_quantized:
        why = "is quantised"
    elif tensor.is_complex():
        why = "is complex"
    elif tensor.device.type == "meta":
        why = "has no memory (device meta)"
    elif type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        why = f"is a {type(tensor).__name__}, whose elements are not in one place"
    elif tensor.dtype not in dtypes(torch) or (kind != _abi.STILL and not floating(tensor)):
        why = f"is of {tensor.dtype}: float32, float64, float16 and bfloat16 can be trained"
    elif tensor.numel() > 1 and 0 in tensor.stride():
        why = "has elements that share memory (expand): give a copy"
    if why is not None:
        raise BadInput(f'tensor "{name}" {why}')
    return Entry(name, tuple(tensor.shape), dtypes(torch)[tensor.dtype], kind)


def _whole(torch: Any) -> Tuple[Any, ...]:
    return (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)


def _identity(tensor: Any) -> Any:
    """Equal for two tensors that are the same memory in the same order."""
    if tensor.device.type == "meta" or tensor.numel() == 0:
        return id(tensor)
    return (str(tensor.device), tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)


def _check_optimizer(optimizer: Any) -> None:
    if optimizer is not None and not (
        hasattr(optimizer, "param_groups") and callable(getattr(optimizer, "step", None))
    ):
        raise BadInput(f"optimizer is a {type(optimizer).__name__}, not a torch.optim.Optimizer")


def of_module(torch: Any, module: Any, optimizer: Any, buffers: str) -> Model:
    _check_optimizer(optimizer)
    entries: List[Entry] = []
    kept: List[Place] = []
    aliases: Dict[str, str] = {}
    known: Dict[Any, str] = {}
    for place in places(module):
        tensor = place.now()
        if place.buffer and buffers == "own":
            continue
        if not place.buffer and tensor.requires_grad:
            kind = _abi.TRAINED
        elif place.buffer and (floating(tensor) or tensor.is_complex()):
            kind = _abi.AVERAGED
        else:
            kind = _abi.STILL
            # Other whole numbers than counters neither travel nor stand in the file.
            if tensor.dtype in _whole(torch):
                continue
        entry = _entry(torch, place.name, tensor, kind)
        first = known.setdefault(_identity(tensor), place.name)
        if first != place.name:
            aliases[place.name] = first
            continue
        entries.append(entry)
        kept.append(place)
    return TorchModel(torch, module, entries, kept, [], aliases, optimizer)


def of_tensors(torch: Any, items: List[Tuple[str, Any]], optimizer: Any) -> Model:
    """`items`: names and tensors. A Parameter that needs no gradient is frozen."""
    _check_optimizer(optimizer)
    entries = []
    known: Dict[Any, str] = {}
    aliases: Dict[str, str] = {}
    tensors = []
    for name, tensor in items:
        if not isinstance(tensor, torch.Tensor):
            raise BadInput(f'"{name}" is a {type(tensor).__name__}, and others are tensors')
        still = isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad
        entry = _entry(torch, name, tensor, _abi.STILL if still else _abi.TRAINED)
        first = known.setdefault(_identity(tensor), name)
        if first != name:
            aliases[name] = first
            continue
        entries.append(entry)
        tensors.append(tensor)
    return TorchModel(torch, None, entries, [], tensors, aliases, optimizer)


class TorchModel(Model):
    def __init__(
        self,
        torch: Any,
        module: Any,
        entries: List[Entry],
        kept: List[Place],
        tensors: List[Any],
        aliases: Dict[str, str],
        optimizer: Any,
    ) -> None:
        self._torch = torch
        self._module = module
        self.entries = entries
        self.aliases = aliases  # name of a tied tensor -> the one that is sent
        self._places = kept
        self._tensors = tensors or [place.now() for place in kept]
        self._dtypes = dtypes(torch)
        self._optimizer = optimizer
        self._rate: Optional[_Rate] = None
        self.has_optimizer = self.scales_rate = optimizer is not None
        self._addresses = (ctypes.c_void_p * len(entries))()
        self._staged: List[Tuple[Any, Any]] = []  # tensor, its stage, since the last out()
        self._stages: Dict[Tuple[Any, bool], Any] = {}
        self._opened = False
        check_apart(
            [
                (tensor.data_ptr(), tensor.numel() * tensor.element_size(), entry.name)
                for entry, tensor in zip(entries, self._tensors)
                if tensor.device.type == "cpu" and tensor.is_contiguous()
            ]
        )

    # --- who the tensors are ---------------------------------------------------------------------

    def look(self) -> None:
        if self._module is None:
            return
        now = {place.name: place for place in places(self._module)}
        for entry, tensor in zip(self.entries, self._tensors):
            if entry.name not in now:
                raise BadInput(f'parameter "{entry.name}" is no longer in the model')
            if entry.kind == _abi.AVERAGED:
                continue  # buffers are often assigned anew
            if now[entry.name].now() is not tensor:
                raise BadInput(
                    f'parameter "{entry.name}" was replaced by another object after the worker was '
                    "opened: copy new values into it, as load_state_dict does"
                )
            if entry.kind == _abi.STILL and tensor.requires_grad:
                raise BadInput(
                    f'parameter "{entry.name}" was frozen when the worker was opened, and needs a '
                    "gradient now: decide before"
                )
        known = {entry.name for entry in self.entries}
        for name, place in now.items():
            if not place.buffer and name not in known and place.now().requires_grad:
                if self.aliases.get(name) not in known:
                    raise BadInput(f'parameter "{name}" is new: the worker was opened without it')

    def _fetch(self) -> None:
        """Buffers that were assigned anew."""
        for i, place in enumerate(self._places):
            if place.buffer:
                self._tensors[i] = place.now()

    def _check(self, entry: Entry, tensor: Any) -> None:
        if tensor is None:
            raise BadInput(f'buffer "{entry.name}" is no longer in the model')
        if self._dtypes.get(tensor.dtype) != entry.dtype or tensor.shape != entry.shape:
            raise BadInput(
                f'tensor "{entry.name}" is {tensor.dtype} {list(tensor.shape)} now, and was '
                f"otherwise when the worker was opened: convert the model before"
            )

    # --- memory ----------------------------------------------------------------------------------

    def out(self) -> Any:
        torch = self._torch
        self._fetch()
        self._staged = []
        strange = []
        for i, (entry, tensor) in enumerate(zip(self.entries, self._tensors)):
            self._check(entry, tensor)
            if entry.kind == _abi.STILL and self._opened:
                self._addresses[i] = None
            elif tensor.device.type == "cpu" and tensor.is_contiguous():
                self._addresses[i] = tensor.data_ptr()
            else:
                strange.append((i, tensor))
        if strange:
            self._stage(strange)
            with torch.no_grad():
                for tensor, stage in self._staged:
                    stage.copy_(tensor, non_blocking=True)
            self._finish()
        if not self._opened:
            self._opened = True
        return self._addresses

    def _stage(self, strange: List[Tuple[int, Any]]) -> None:
        """Gives each of these tensors its part of one vector a type."""
        torch = self._torch
        sizes: Dict[Tuple[Any, bool], int] = {}
        for _, tensor in strange:
            key = (tensor.dtype, tensor.device.type == "cuda")
            sizes[key] = sizes.get(key, 0) + tensor.numel()
        for key, size in sizes.items():
            stage = self._stages.get(key)
            if stage is None or stage.numel() < size:
                self._stages[key] = torch.empty(size, dtype=key[0], pin_memory=key[1])
        used = dict.fromkeys(sizes, 0)
        for i, tensor in strange:
            key = (tensor.dtype, tensor.device.type == "cuda")
            at = used[key]
            used[key] += tensor.numel()
            part = self._stages[key][at : at + tensor.numel()].view(tensor.shape)
            self._addresses[i] = part.data_ptr()
            self._staged.append((tensor, part))

    def _finish(self) -> None:
        """Waits for copies from and to GPUs."""
        for device in {tensor.device for tensor, _ in self._staged}:
            if device.type == "cuda":
                self._torch.cuda.current_stream(device).synchronize()
            elif device.type != "cpu" and hasattr(self._torch, device.type):
                synchronize = getattr(getattr(self._torch, device.type), "synchronize", None)
                if synchronize is not None:
                    synchronize()

    def back(self) -> None:
        torch = self._torch
        with torch.no_grad():
            for tensor, stage in self._staged:
                tensor.copy_(stage, non_blocking=True)
        self._finish()
        # The library has written behind the back of autograd.
        increment = getattr(torch.autograd.graph, "increment_version", None)
        if increment is not None:
            staged = {id(tensor) for tensor, _ in self._staged}
            for entry, tensor in zip(self.entries, self._tensors):
                if entry.kind != _abi.STILL and id(tensor) not in staged:
                    if not tensor.is_inference():
                        increment(tensor)

    # --- the optimizer ---------------------------------------------------------------------------

    def follow(self, rate: Callable[[], float]) -> None:
        if self._optimizer is not None:
            self._rate = _Rate(self._optimizer, rate)

    def unfollow(self) -> None:
        if self._rate is not None:
            self._rate.end()
            self._rate = None

    def learning_rate(self) -> Optional[float]:
        return None if self._optimizer is None else float(self._optimizer.param_groups[0]["lr"])

    def restart(self) -> None:
        if self._optimizer is not None:
            self._optimizer.state.clear()

    # --- evaluation ------------------------------------------------------------------------------

    def save(self) -> Callable[[], None]:
        torch = self._torch
        self._fetch()
        kept = [
            (tensor, tensor.detach().clone())
            for entry, tensor in zip(self.entries, self._tensors)
            if entry.kind != _abi.STILL
        ]

        def put_back() -> None:
            with torch.no_grad():
                for tensor, copy in kept:
                    tensor.copy_(copy)

        return put_back

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        torch = self._torch
        modules = list(self._module.modules()) if self._module is not None else []
        modes = [each.training for each in modules]
        states = RandomStates()
        here = torch.get_rng_state()
        cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        there = torch.cuda.get_rng_state_all() if cuda else None
        try:
            if self._module is not None:
                self._module.eval()
            with torch.no_grad():
                yield
        finally:
            for each, mode in zip(modules, modes):
                each.training = mode
            states.put_back()
            torch.set_rng_state(here)
            if there is not None:
                torch.cuda.set_rng_state_all(there)


class _Rate:
    """Multiplies the learning rates of an optimizer within each of its steps."""

    def __init__(self, optimizer: Any, rate: Callable[[], float]) -> None:
        self._rate = rate
        self._before: Optional[List[Tuple[Dict[str, Any], Any]]] = None
        self._handles: List[Any] = []
        if hasattr(optimizer, "register_step_pre_hook"):  # since PyTorch 2.0
            self._handles = [
                optimizer.register_step_pre_hook(self._begin),
                optimizer.register_step_post_hook(self._end),
            ]
            return
        step = optimizer.step

        def scaled(own: Any, *args: Any, **kwargs: Any) -> Any:
            self._begin(own)
            try:
                return step(*args, **kwargs)
            finally:
                self._end()

        # A scheduler wraps step() once, and knows by this mark that it has. One that is made later
        # asks for a bound method.
        if hasattr(step, "_with_counter"):
            scaled._with_counter = step._with_counter  # type: ignore[attr-defined]
        optimizer.step = types.MethodType(scaled, optimizer)

    def _begin(self, optimizer: Any, *_: Any) -> None:
        self._end()  # a step that failed has not ended
        rate = self._rate()
        if rate == 1:
            return
        self._before = [(group, group["lr"]) for group in optimizer.param_groups]
        for group, lr in self._before:
            group["lr"] = lr * rate

    def _end(self, *_: Any) -> None:
        if self._before is not None:
            for group, lr in self._before:
                group["lr"] = lr
            self._before = None

    def end(self) -> None:
        self._end()
        for handle in self._handles:
            handle.remove()
        self._rate = lambda: 1.0
