"""A training loop of your own as a worker of a cluster: Worker, and this(): who it is."""

from __future__ import annotations

import atexit
import ctypes
import logging
import math
import os
import threading
import time
import weakref
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    Union,
)

from . import _abi
from ._model import Model, make_model
from .errors import BadInput, Error

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

    from ._curves import Notes

    Path = Union[str, "os.PathLike[str]"]
    Measured = Union[float, Tuple[float, float], Tuple[float, float, int]]

logger = logging.getLogger("rubato")

_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR)
_WAIT_MS = 50  # a wait in the library; Ctrl-C acts after it
_LOSS_EVERY = 0.5  # seconds: how often a loss on a GPU is read
_WALK_EVERY = 100  # commits: how often the module is walked
_SETBACKS_EVERY = 100  # dropped updates a warning
_CALLS_AFTER = 100  # of step() after the run, before a warning


class Identity(NamedTuple):
    """Who a worker is, before there is a model."""

    name: str
    index: int  # type: ignore[assignment] # its place in the cluster file, from 0
    workers: int  # that the file lists
    seed: int  # of the run
    batch: int  # training.batch of the file
    data: Optional[str]  # workers.data of the file


def _bytes(text: Optional[Path]) -> Optional[bytes]:
    return None if text is None else os.fsencode(text)


def _options(
    cluster: Path,
    *,
    name: Optional[str] = None,
    scheduler: Optional[str] = None,
    sync: Optional[str] = None,
    keys: Optional[Path] = None,
    state: Optional[Path] = None,
    flags: int = 0,
    samples: int = 0,
    held_out: int = 0,
) -> _abi.Options:
    return _abi.Options(
        size=ctypes.sizeof(_abi.Options),
        file=_bytes(cluster),
        scheduler=_bytes(scheduler),
        name=_bytes(name),
        sync=_bytes(sync),
        keys=_bytes(keys),
        state=_bytes(state),
        flags=flags,
        samples=samples,
        held_out=held_out,
    )


def _identify(options: _abi.Options) -> Identity:
    found = _abi.Identity(size=ctypes.sizeof(_abi.Identity))
    code = _abi.lib.rubato_identify(ctypes.byref(options), ctypes.byref(found))
    if code != _abi.OK:
        raise _abi.last_error(code, None)
    return Identity(
        name=found.name.decode(),
        index=found.worker,
        workers=found.workers,
        seed=found.seed,
        batch=found.batch,
        data=os.fsdecode(found.data) or None,
    )


def _virtual() -> bool:
    """The virtual cluster drives this process: rubato compare."""
    return "RUBATO_VIRTUAL" in os.environ


def _alone(scheduler: Optional[str]) -> bool:
    """The user wants to try the loop without a cluster."""
    joins = scheduler or os.environ.get("RUBATO_SCHEDULER") or _virtual()
    return not joins and os.environ.get("RUBATO_ALONE") == "1"


def this(cluster: Path, *, name: Optional[str] = None) -> Identity:
    """Who this process is in the cluster: its name, number and data.

    RUBATO_FILE and RUBATO_NAME of the environment win over the arguments.
    """
    if _alone(None) and name is None and "RUBATO_NAME" not in os.environ:
        return Identity("alone", 0, 1, 0, 32, None)
    return _identify(_options(cluster, name=name))


class Worker:
    """A member of a cluster, as long as the `with` block lasts.

    cluster    the cluster file
    model      a torch.nn.Module, its parameters, or a dict of names and tensors or NumPy arrays
    optimizer  whose learning rates the cluster may scale, and whose moments end with a restart
    name       of this worker in the file; not needed if it lists one only
    scheduler  tcp://HOST:PORT
    sync       the sync model of the run
    evaluate   returns loss, (loss, accuracy) or (loss, accuracy, samples) on held-out data
    buffers    "average": running statistics travel; "own": they stay here
    samples    that this worker trains on
    held_out   samples that evaluate measures on: so much its result counts beside other workers'
    keys       directory of keys
    insecure   no keys, beyond loopback either
    state      directory that outlives the process

    RUBATO_FILE, RUBATO_SCHEDULER, RUBATO_NAME, RUBATO_SYNC, RUBATO_SEED, RUBATO_KEYS, RUBATO_STATE
    and RUBATO_INSECURE of the environment win over the arguments. RUBATO_ALONE=1 trains without a
    cluster where no scheduler is named.
    """

    def __init__(
        self,
        cluster: Path,
        model: Union[Module, Iterable[Tensor], Mapping[str, Any]],
        optimizer: Optional[Optimizer] = None,
        *,
        name: Optional[str] = None,
        scheduler: Optional[str] = None,
        sync: Optional[str] = None,
        evaluate: Optional[Callable[[], Measured]] = None,
        buffers: str = "average",
        samples: Optional[int] = None,
        held_out: Optional[int] = None,
        keys: Optional[Path] = None,
        insecure: bool = False,
        state: Optional[Path] = None,
    ) -> None:
        self._handle: Optional[int] = None
        self._closed = True  # until it is open
        self._pid = os.getpid()
        self._lock = threading.Lock()  # held by the thread within a call
        self._evaluate_with = evaluate
        self._model: Model = make_model(model, optimizer, buffers)
        self._turn = _abi.Turn(size=ctypes.sizeof(_abi.Turn), action=_abi.WAIT, rate=1)
        self._turn_at = ctypes.byref(self._turn)
        self._line = ctypes.create_string_buffer(_abi.LINE_BYTES)  # of the log
        self._level = ctypes.c_int()
        self._over = False
        self._calls_after = 0
        self._rate_read = False
        self._batch_read = False
        self._told = (1.0, 0)  # rate and batch of the step under way
        self._looked_at = -_WALK_EVERY  # commits
        # Of steps whose losses are still on a GPU.
        self._loss_there: Any = None
        self._samples_there = 0
        self._loss_due = 0.0
        self._notes: Optional[Notes] = None

        self._is_alone = _alone(scheduler)
        if self._is_alone:
            self._identity = Identity(name or "alone", 0, 1, 0, 32, None)
            self._turn.action = _abi.TRAIN
            self._closed = False
            logger.warning("RUBATO_ALONE=1: this loop trains alone, without a cluster")
            return
        flags = _abi.RESIZES_BATCH
        flags |= _abi.SCALES_RATE if self._model.scales_rate else 0
        flags |= _abi.EVALUATES if evaluate is not None else 0
        flags |= _abi.INSECURE if insecure else 0
        options = _options(
            cluster,
            name=name,
            scheduler=scheduler,
            sync=sync,
            keys=keys,
            state=state,
            flags=flags,
            samples=samples or 0,
            held_out=held_out or 0,
        )
        self._identity = _identify(options)
        if not (scheduler or os.environ.get("RUBATO_SCHEDULER") or _virtual()):
            raise BadInput(
                f"worker {self.name} has no scheduler to join: start the script with `rubato up "
                f"{os.fsdecode(cluster)}`, set RUBATO_SCHEDULER=tcp://HOST:PORT, or set "
                "RUBATO_ALONE=1 to train without a cluster"
            )
        self._open(options)
        self._model.follow(lambda: float(self._turn.rate))
        self._notes = self._take_notes(sync)
        _open_workers.add(self)

    def _open(self, options: _abi.Options) -> None:
        entries = self._model.entries
        addresses = self._model.out()
        aliases = self._model.aliases
        # Other names come last, so that out() has the addresses of the rest alone.
        tensors = (_abi.Tensor * (len(entries) + len(aliases)))()
        places = {}
        for i, entry in enumerate(entries):
            places[entry.name] = i
            tensors[i] = _abi.Tensor(
                name=entry.name.encode(),
                dtype=entry.dtype,
                kind=entry.kind,
                rank=len(entry.shape),
                shape=(ctypes.c_uint64 * len(entry.shape))(*entry.shape),
                data=addresses[i],
            )
        for i, (name, kept) in enumerate(aliases.items(), len(entries)):
            tensors[i] = tensors[places[kept]]
            tensors[i].name = name.encode()
        handle = ctypes.c_void_p()
        code = _abi.lib.rubato_open(
            ctypes.byref(options), tensors, len(tensors), ctypes.byref(handle)
        )
        if code != _abi.OK:
            raise _abi.last_error(code, None)
        self._handle = handle.value
        self._closed = False

    # --- the loop --------------------------------------------------------------------------------

    def step(self, loss: Union[float, Tensor, None] = None, samples: int = 1) -> bool:
        """A mini-batch was made: tells the cluster, and does what is due.

        loss     its mean over the samples; None: not computed
        Returns  False when the run is over.
        """
        if not self._lock.acquire(False):
            raise Error("another thread is within a call of this worker", "busy")
        try:
            turn = self._turn
            if self._over or self._handle is None:
                return self._step_outside()
            if turn.action != _abi.TRAIN:
                # The parameters of the cluster come first. They replace what this step made.
                return self._drive()
            if loss is None:
                total, counted = 0.0, 0
            elif type(loss) is float:
                total, counted = loss * samples, samples
            else:
                total, counted = self._read_loss(loss, samples)
            rate = turn.rate
            code = _abi.lib.rubato_step(self._handle, total, counted, self._turn_at)
            if code != _abi.OK:
                self._fail(code)
            if self._notes is not None:
                self._notes.step(turn, total, counted, self._model.learning_rate(), rate)
            if turn.action != _abi.TRAIN:
                return self._drive()
            return True
        finally:
            self._lock.release()

    def batches(
        self,
        data: Any,
        size: Optional[int] = None,
        *,
        labels: Any = None,
    ) -> Iterator[Any]:
        """Mini-batches until the run is over.

        data    tensors, arrays or lists of as many samples, one or a tuple of them: the cluster
                file's partition says which samples are this worker's. Or a DataLoader, which is
                repeated as it is.
        size    of a mini-batch; default: training.batch of the file. Sync models that tune the
                mini-batch scale it. A DataLoader has its own.
        labels  classes, by which the file may share out samples; default: the last of `data`, if
                it is a vector of whole numbers
        """
        from . import _batches

        self._batch_read = True
        return _batches.batches(self, data, size, labels)

    def pull(self) -> None:
        """Drops the steps since the last commit, and what else has changed the parameters."""
        with self._call():
            if self._handle is None or self._over:
                return
            if self._turn.action != _abi.TRAIN:
                self._drive()
                return
            code = _abi.lib.rubato_pull(self._handle, self._model.out())
            if code != _abi.OK:
                self._fail(code)
            self._model.back()

    @property
    def over(self) -> bool:
        """The run is over."""
        return self._over

    @property
    def virtual(self) -> bool:
        """The loop runs in the virtual cluster of rubato compare."""
        return _virtual()

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def index(self) -> int:
        """Place of this worker in the cluster file, from 0."""
        return self._identity.index

    @property
    def workers(self) -> int:
        """That the cluster file lists."""
        return self._identity.workers

    @property
    def seed(self) -> int:
        """Of the run."""
        return self._identity.seed

    @property
    def batch(self) -> int:
        """Samples of the next mini-batch."""
        self._batch_read = True
        return self._turn.batch or self._identity.batch

    @property
    def rate(self) -> float:
        """Part of the learning rate for the next step. An optimizer that was given obeys it."""
        self._rate_read = True
        return float(self._turn.rate)

    @property
    def steps(self) -> int:
        """Of this process."""
        return int(self._turn.steps)

    @property
    def commits(self) -> int:
        """Of this process."""
        return int(self._turn.commits)

    @property
    def earlier_steps(self) -> int:
        """Of earlier processes of this name."""
        return int(self._turn.earlier_steps)

    # --- what is due -----------------------------------------------------------------------------

    def _drive(self) -> bool:
        """Until the loop may train. Returns: False when the run is over. Within the lock."""
        lib, handle, turn, turn_at = _abi.lib, self._handle, self._turn, self._turn_at
        model = self._model
        self._check_steering()
        while turn.action != _abi.TRAIN:
            action = turn.action
            if action in (_abi.COMMIT, _abi.SEED):
                if turn.commits >= self._looked_at + _WALK_EVERY:
                    model.look()
                    self._looked_at = turn.commits
                code = lib.rubato_commit(handle, model.out(), turn_at)
            elif action in (_abi.LOAD, _abi.RESTART):
                if action == _abi.RESTART:
                    model.restart()
                    self._warn_of_setback()
                code = lib.rubato_load(handle, model.out(), turn_at)
                model.back()
            elif action == _abi.EVALUATE:
                code = self._evaluate()
            elif action == _abi.WAIT:
                code = lib.rubato_wait(handle, _WAIT_MS, turn_at)
                if turn.action == _abi.WAIT:
                    self._log()
            else:
                self._over = True
                self._log()
                if self._notes is not None:
                    self._notes.write()
                return False
            if code != _abi.OK:
                self._fail(code)
        self._log()
        self._told = (turn.rate, turn.batch)
        return True

    def _evaluate(self) -> int:
        if self._evaluate_with is None:
            raise Error("the cluster asks for an evaluation that this loop has not offered", "bug")
        model = self._model
        put_back = model.save()
        try:
            with model.measuring():
                code = _abi.lib.rubato_global(self._handle, model.out())
                if code != _abi.OK:
                    return int(code)
                model.back()
                loss, accuracy, samples = _measured(self._evaluate_with())
        finally:
            put_back()
        return int(
            _abi.lib.rubato_evaluated(self._handle, loss, accuracy, samples, self._turn_at)
        )

    def _read_loss(self, loss: Any, samples: int) -> Tuple[float, int]:
        if getattr(loss, "is_cpu", True):  # PyTorch's tensors alone have it
            item = getattr(loss, "item", None)
            return (float(loss) if item is None else item()) * samples, samples
        # Reading it would wait for the GPU, so that sums wait there.
        part = loss.detach() * samples
        self._loss_there = part if self._loss_there is None else self._loss_there + part
        self._samples_there += samples
        now = time.monotonic()
        if now < self._loss_due:
            return 0.0, 0
        self._loss_due = now + _LOSS_EVERY
        total, counted = float(self._loss_there.item()), self._samples_there
        self._loss_there, self._samples_there = None, 0
        return total, counted

    def _check_steering(self) -> None:
        """The cluster steers something that the last step did not look at."""
        rate, batch = self._told
        if rate != 1 and not self._rate_read and not self._model.has_optimizer:
            raise BadInput(
                "the sync model sets the learning rate of each worker: multiply yours by w.rate in "
                "each step, or choose another model"
            )
        if batch not in (0, self._identity.batch) and not self._batch_read:
            raise BadInput(
                "the sync model sets the mini-batch of each worker: use w.batches, or take w.batch "
                "samples in each step, or choose another model"
            )

    def _warn_of_setback(self) -> None:
        setback = self._turn.setbacks + 1
        if self._turn.commits > 0 and setback % _SETBACKS_EVERY == 1:
            logger.warning(
                "%s: step %d: the cluster did not take the last update: it is too large, or not "
                "finite; the steps since the last load are dropped, and the optimizer begins anew; "
                "after a change by hand call w.pull()",
                self.name,
                self._turn.steps,
            )

    def _step_outside(self) -> bool:
        """A step after the run, or without a cluster."""
        if self._is_alone and not self._closed and not self._over:
            self._turn.steps += 1
            return True
        self._calls_after += 1
        if self._calls_after == _CALLS_AFTER:
            logger.warning(
                "%s: the run is over, and the loop goes on: end it when w.step() returns False",
                self.name,
            )
        return False

    def _fail(self, code: int) -> None:
        self._log()
        raise _abi.last_error(code, self._handle)

    def _log(self) -> None:
        line, level = self._line, self._level
        while _abi.lib.rubato_next_line(self._handle, level, line, _abi.LINE_BYTES):
            logger.log(
                _LEVELS[level.value], "%s: %s", self.name, line.value.decode("utf-8", "replace")
            )

    def _take_notes(self, sync: Optional[str]) -> Optional[Notes]:
        directory = os.environ.get("RUBATO_CURVES")
        if not directory or os.environ.get("RUBATO_ROLE") == "evaluator":
            return None
        from ._curves import Notes

        of_run = os.environ.get("RUBATO_SYNC") or sync or "adsp"
        return Notes(directory, of_run, self.seed, self.name)

    def _call(self) -> _Call:
        return _Call(self._lock)

    def _begin(self) -> None:
        """Joins, and waits until training starts."""
        with self._call():
            if self._handle is not None and not self._over:
                self._drive()

    # --- the end ---------------------------------------------------------------------------------

    def close(self, why: str = "done") -> None:
        """Leaves the cluster, which hears why. `with` does it."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._call():
            self._closed = True
            self._model.unfollow()
            if self._notes is not None:
                self._notes.write()
            handle, self._handle = self._handle, None
            if handle is None:
                return
            _open_workers.discard(self)
            _abi.lib.rubato_close(handle, why.encode())

    def __enter__(self) -> Worker:
        try:
            self._begin()
        except BaseException as error:
            self.close(_reason(type(error)))
            raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close(_reason(kind))

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close("dropped")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Worker belongs to this process: it cannot be copied or pickled")

    def __repr__(self) -> str:
        state = "over" if self._over else "closed" if self._closed else f"{self.steps} steps"
        return f"<rubato.Worker {self.name}: {state}>"


class _Call:
    """Holds the lock of a worker, or says that another thread does."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            raise Error("another thread is within a call of this worker", "busy")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _measured(result: Any) -> Tuple[float, float, int]:
    parts = result if isinstance(result, (tuple, list)) else (result,)
    if not 1 <= len(parts) <= 3:
        raise BadInput(
            "evaluate returns a loss, (loss, accuracy) or (loss, accuracy, samples), not "
            f"{len(parts)} values"
        )
    loss = float(parts[0])
    accuracy = float(parts[1]) if len(parts) > 1 else math.nan
    samples = int(parts[2]) if len(parts) > 2 else 1
    return loss, accuracy, samples


def _reason(kind: Optional[Type[BaseException]]) -> str:
    if kind is None:
        return "done"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    if issubclass(kind, SystemExit):
        return "the script ended"
    return f"exception: {kind.__name__}"


_open_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for worker in list(_open_workers):
        try:
            worker.close("the script ended")
        except Error:
            pass  # another thread is within a call, and ends with the process
