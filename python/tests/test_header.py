"""_abi.py says what abi/rubato.h says."""

import ctypes
import re
from pathlib import Path

import rubato
from rubato import _abi

HEADER = Path(__file__).resolve().parents[2] / "abi/rubato.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)

TYPES = {
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int32_t": ctypes.c_int32,
    "double": ctypes.c_double,
    "const char*": ctypes.c_char_p,
    "char*": ctypes.c_char_p,
    "void*": ctypes.c_void_p,
    "rubato_worker*": ctypes.c_void_p,
    "const rubato_worker*": ctypes.c_void_p,
    "rubato_worker**": ctypes.POINTER(ctypes.c_void_p),
    "void* const*": ctypes.POINTER(ctypes.c_void_p),
    "const uint64_t*": ctypes.POINTER(ctypes.c_uint64),
    "const int32_t*": ctypes.POINTER(ctypes.c_int32),
    "uint32_t*": ctypes.POINTER(ctypes.c_uint32),
    "int*": ctypes.POINTER(ctypes.c_int),
    "size_t*": ctypes.POINTER(ctypes.c_size_t),
    **{
        f"{const}{name}*": ctypes.POINTER(struct)
        for name, struct in _abi.STRUCTS.items()
        for const in ("", "const ")
    },
}


def declared(text: str):
    """Type and name of "const char* name", also without a name."""
    text = " ".join(text.split())
    found = re.fullmatch(r"(.*?[*\s])(\w+)(\[\d+\])?", text)
    if text in TYPES or found is None:
        return TYPES[text], None
    if found[3]:
        assert found[1].strip() == "char"
        return ctypes.c_char * int(found[3][1:-1]), found[2]
    return TYPES[found[1].strip()], found[2]


def enums():
    for body in re.findall(r"enum \w+ \{(.*?)\}", TEXT, flags=re.S):
        value = -1
        for entry in body.split(","):
            name, _, given = entry.partition("=")
            value = int(given) if given.strip() else value + 1
            yield name.strip(), value


def test_constants():
    constants = dict(enums())
    assert len(constants) > 30
    constants["RUBATO_ABI"] = int(re.search(r"#define RUBATO_ABI (\d+)", TEXT)[1])
    for name, value in constants.items():
        assert getattr(_abi, name[len("RUBATO_") :]) == value, name
    ours = {name for name, value in vars(_abi).items() if name.isupper() and type(value) is int}
    ours.remove("LINE_BYTES")
    assert ours == {name[len("RUBATO_") :] for name in constants}


def test_structs():
    bodies = dict(re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", TEXT, flags=re.S))
    bodies = {name: body for body, name in bodies.items()}
    assert set(bodies) == set(_abi.STRUCTS)
    for name, body in bodies.items():
        fields = []
        for line in filter(None, (each.strip() for each in body.split(";"))):
            kind, field = declared(line)
            fields.append((field, kind))
        assert fields == _abi.STRUCTS[name]._fields_, name
        assert _abi.lib.rubato_size_of(name.encode()) == ctypes.sizeof(_abi.STRUCTS[name])
    assert _abi.lib.rubato_size_of(b"rubato_nothing") == 0


def test_functions():
    found = re.findall(r"^((?:const )?\w+\*?) (rubato_\w+)\(([^;]*)\);", TEXT, flags=re.M)
    assert {name for _, name, _ in found} == set(_abi.SIGNATURES)
    for result, name, arguments in found:
        kinds = [] if arguments == "void" else [declared(each)[0] for each in arguments.split(",")]
        assert _abi.SIGNATURES[name] == (TYPES[result], kinds), name


def test_codes_are_exceptions():
    codes = {name: value for name, value in enums() if value == getattr(_abi, name[7:])}
    for name, kind in {
        "RUBATO_BAD_INPUT": ValueError,
        "RUBATO_IO": OSError,
        "RUBATO_REFUSED": rubato.Refused,
        "RUBATO_TIMEOUT": TimeoutError,
        "RUBATO_GONE": rubato.Gone,
        "RUBATO_UNSUPPORTED": rubato.Unsupported,
        "RUBATO_BUSY": rubato.Error,
        "RUBATO_FORKED": rubato.Error,
        "RUBATO_NO_MEMORY": rubato.Error,
        "RUBATO_BUG": rubato.Error,
    }.items():
        error = _abi.error(codes[name], "line")
        assert isinstance(error, kind) and isinstance(error, rubato.Error)
        assert str(error) == "line" and error.code == name[len("RUBATO_") :].lower()
