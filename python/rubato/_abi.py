"""librubato.so by ctypes: the functions, structs and constants of abi/rubato.h, and no more.

A test compares this file with the header.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any, Dict, List, Optional, Tuple, Type

from .errors import BadInput, Error, Gone, Io, Refused, Timeout, Unsupported

ABI = 1

# enum rubato_code
OK = 0
BAD_INPUT = 2
IO = 3
REFUSED = 4
TIMEOUT = 5
GONE = 6
UNSUPPORTED = 7
BUSY = 8
FORKED = 9
NO_MEMORY = 10
BUG = 11

# enum rubato_action
TRAIN = 0
SEED = 1
COMMIT = 2
LOAD = 3
RESTART = 4
EVALUATE = 5
WAIT = 6
OVER = 7

# enum rubato_dtype
F32 = 0
F64 = 1
F16 = 2
BF16 = 3
I64 = 4

# enum rubato_kind
TRAINED = 0
AVERAGED = 1
STILL = 2

# enum rubato_flag
SCALES_RATE = 1
RESIZES_BATCH = 2
EVALUATES = 4
INSECURE = 8
STRETCH = 16
THROTTLE = 32

LINE_BYTES = 4096  # of a line of the log


class Tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_uint32),
        ("kind", c_uint32),
        ("rank", c_uint32),
        ("shape", POINTER(c_uint64)),
        ("data", c_void_p),
    ]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("file", c_char_p),
        ("scheduler", c_char_p),
        ("name", c_char_p),
        ("sync", c_char_p),
        ("keys", c_char_p),
        ("state", c_char_p),
        ("like", c_char_p),
        ("seed", c_uint64),
        ("flags", c_uint32),
        ("samples", c_uint64),
        ("held_out", c_uint64),
    ]


class Turn(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("action", c_uint32),
        ("batch", c_uint32),
        ("worker", c_uint32),
        ("workers", c_uint32),
        ("incarnation", c_uint32),
        ("setbacks", c_uint32),
        ("rate", c_double),
        ("seconds", c_double),
        ("steps", c_uint64),
        ("commits", c_uint64),
        ("bytes_up", c_uint64),
        ("bytes_down", c_uint64),
        ("earlier_steps", c_uint64),
    ]


class Identity(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("worker", c_uint32),
        ("workers", c_uint32),
        ("batch", c_uint32),
        ("seed", c_uint64),
        ("name", c_char * 64),
        ("data", c_char * 1024),
    ]


STRUCTS: Dict[str, Type[Structure]] = {
    "rubato_tensor": Tensor,
    "rubato_options": Options,
    "rubato_turn": Turn,
    "rubato_identity": Identity,
}

# Workers are void*, and arrays of addresses are POINTER(c_void_p).
SIGNATURES: Dict[str, Tuple[Any, List[Any]]] = {
    "rubato_version": (c_char_p, []),
    "rubato_abi": (c_uint32, []),
    "rubato_size_of": (c_size_t, [c_char_p]),
    "rubato_identify": (c_int, [POINTER(Options), POINTER(Identity)]),
    "rubato_open": (c_int, [POINTER(Options), POINTER(Tensor), c_size_t, POINTER(c_void_p)]),
    "rubato_step": (c_int, [c_void_p, c_double, c_uint64, POINTER(Turn)]),
    "rubato_commit": (c_int, [c_void_p, POINTER(c_void_p), POINTER(Turn)]),
    "rubato_load": (c_int, [c_void_p, POINTER(c_void_p), POINTER(Turn)]),
    "rubato_wait": (c_int, [c_void_p, c_uint32, POINTER(Turn)]),
    "rubato_global": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rubato_evaluated": (c_int, [c_void_p, c_double, c_double, c_uint64, POINTER(Turn)]),
    "rubato_pull": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rubato_share": (
        c_int,
        [c_void_p, POINTER(c_int32), c_size_t, c_int32, POINTER(c_size_t)],
    ),
    "rubato_draw": (c_int, [c_void_p, POINTER(c_uint32), c_size_t]),
    "rubato_next_line": (c_size_t, [c_void_p, POINTER(c_int), c_char_p, c_size_t]),
    "rubato_close": (c_int, [c_void_p, c_char_p]),
    "rubato_error": (c_char_p, [c_void_p]),
}

_ERRORS: Dict[int, Type[Error]] = {
    BAD_INPUT: BadInput,
    IO: Io,
    REFUSED: Refused,
    TIMEOUT: Timeout,
    GONE: Gone,
    UNSUPPORTED: Unsupported,
}
_CODES = {BUSY: "busy", FORKED: "forked", NO_MEMORY: "no_memory", BUG: "bug"}


def error(code: int, line: str) -> Error:
    """The exception of a code."""
    if code in _ERRORS:
        return _ERRORS[code](line)
    return Error(line, _CODES.get(code, "bug"))


def last_error(code: int, worker: Optional[int]) -> Error:
    """The exception of the last call, which returned `code`. A null worker: of this thread's."""
    line = lib.rubato_error(worker) or b""
    return error(code, line.decode("utf-8", "replace"))


def _load() -> ctypes.CDLL:
    named = os.environ.get("RUBATO_LIBRARY")
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "librubato.so.0")
    path = named or (beside if os.path.exists(beside) else "librubato.so.0")
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as why:
        remedy = "RUBATO_LIBRARY names it" if named else "install librubato0, or set RUBATO_LIBRARY"
        raise ImportError(f"rubato needs librubato.so.0: {why}; {remedy}") from None
    if library.rubato_abi() != ABI:
        raise ImportError(
            f"{path} has interface {library.rubato_abi()}, and this package needs {ABI}: "
            "install both from one release"
        )
    for name, struct in STRUCTS.items():
        size = library.rubato_size_of(name.encode())
        if size < ctypes.sizeof(struct):
            raise ImportError(
                f"{path}: its {name} has {size} bytes, and this package needs "
                f"{ctypes.sizeof(struct)}: install both from one release"
            )
    return library


lib = _load()
