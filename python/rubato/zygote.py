"""Workers of the virtual cluster, forked from one process that has read the user's file.

`rubato compare FILE --module train.py` starts `python3 -m rubato.zygote train.py`. It imports the
file once and forks for each worker, which then calls the file's train(). What the file has loaded
is shared until it is written. A child's random numbers follow from the run's seed, the worker's
name and its life, so that a run can be repeated.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import random
import select
import signal
import socket
import sys
import time
import traceback
from types import ModuleType
from typing import NoReturn

from .errors import Gone

_PR_SET_PDEATHSIG = 1
_REAP_SECONDS = 0.5
_LEAVE_SECONDS = 0.7  # less than rubato compare waits for this process


def _where(error: BaseException) -> str:
    """The innermost line of the user's that an error passed, as one text."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename != __file__
    ]
    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    return f"{frames[-1].filename}:{frames[-1].lineno}: {what}" if frames else what


def _load(path: str) -> ModuleType:
    name = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "train", None)):
        raise AttributeError(f"{path} has no function train(), which holds the training loop")
    return module


def _seed() -> None:
    """Random numbers follow from who this worker is."""
    who = "/".join(os.environ.get(f"RUBATO_{key}", "") for key in ("SEED", "NAME", "LIFE", "ROLE"))
    seed = int.from_bytes(hashlib.blake2b(who.encode(), digest_size=8).digest(), "little")
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.manual_seed(seed % 2**63)
        torch.set_num_threads(1)


def _work(
    module: ModuleType, environment: dict[str, str], channel: int, output: int
) -> NoReturn:
    """The child: never returns into the code of the zygote."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        os.set_inheritable(channel, True)
        os.environ.update(environment, RUBATO_VIRTUAL=str(channel))
        _seed()
        module.train()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
    except Gone:
        pass  # the virtual cluster has ended, and has told the user why
    except BaseException as error:
        traceback.print_exc()
        print(_where(error), file=sys.stderr)  # the last line is what rubato compare repeats
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _reap(children: set[int]) -> None:
    for pid in list(children):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            children.discard(pid)


def _serve(module: ModuleType, control: socket.socket) -> None:
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([control], [], [], _REAP_SECONDS)
        _reap(children)
        if not readable:
            continue
        text, descriptors, _, _ = socket.recv_fds(control, 65536, 2)
        if not text:
            break
        environment = dict(
            pair.split("=", 1) for pair in text.decode(errors="surrogateescape").split("\0") if pair
        )
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            control.close()
            _work(module, environment, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        children.add(pid)
        control.send(str(pid).encode())
    # They read the end of the run from their channels, and leave.
    end = time.monotonic() + _LEAVE_SECONDS
    while children and time.monotonic() < end:
        time.sleep(0.005)
        _reap(children)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


def main() -> int:
    descriptor = os.environ.pop("RUBATO_ZYGOTE", None)
    if descriptor is None or len(sys.argv) != 2:
        print("rubato.zygote is started by rubato compare --module FILE", file=sys.stderr)
        return 2
    control = socket.socket(fileno=int(descriptor))
    control.setblocking(True)
    try:
        module = _load(sys.argv[1])
    except BaseException as error:
        if not isinstance(error, (SyntaxError, ImportError, AttributeError)):
            traceback.print_exc()
        control.send(_where(error).encode()[:4000])
        return 1
    control.send(b"ready")
    _serve(module, control)
    return 0


if __name__ == "__main__":
    sys.exit(main())
