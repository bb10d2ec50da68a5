"""Loops of NumPy arrays in a cluster of a built-in model."""

import copy
import logging
import pickle
import threading
import time

import numpy
import pytest

import rubato
from conftest import BATCH, CLASSES, FEATURES, HIDDEN, SAMPLES, arrays, in_threads, train


def test_a_loop_trains_until_the_run_is_over(cluster, caplog):
    caplog.set_level(logging.INFO, "rubato")
    cluster.start(stop="max_steps = 30")
    model = arrays()
    with cluster.worker(model) as w:
        assert (w.name, w.index, w.workers, w.seed, w.batch, w.rate) == ("w", 0, 1, 1, BATCH, 1)
        assert not w.over and w.steps == 0
        made = train(w, model)
        assert w.over and made >= 30 and w.steps == made and w.commits >= 29
        assert w.earlier_steps == 0
        assert w.step(1.0, BATCH) is False
        for _ in range(150):
            w.step(1.0)
    assert cluster.ends() == 0
    lines = [record.message for record in caplog.records if record.name == "rubato"]
    assert lines and all(line.startswith("w: ") for line in lines)
    assert sum("the loop goes on" in line for line in lines) == 1
    w.close()
    assert w.step(1.0) is False
    assert repr(w) == "<rubato.Worker w: over>"


def test_the_cluster_takes_the_steps_and_gives_them_to_others(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 20")
    models = [arrays(1), arrays(2)]  # their own values are replaced by those of the cluster

    def loop(i):
        with cluster.worker(models[i], name="ab"[i]) as w:
            began = {name: array.copy() for name, array in models[i].items()}
            train(w, models[i], 5)
            return began, {name: array.copy() for name, array in models[i].items()}

    (began_a, ended_a), (began_b, ended_b) = in_threads(lambda: loop(0), lambda: loop(1))
    for name in began_a:
        assert numpy.array_equal(began_a[name], began_b[name])
        assert not numpy.array_equal(began_a[name], arrays(1)[name])
        assert numpy.array_equal(ended_a[name], ended_b[name])
        # Five steps of 0.001, of both the mean.
        assert numpy.allclose(ended_a[name] - began_a[name], 0.005, atol=1e-6)


@pytest.mark.parametrize("sync", ["bsp", "asp", "ssp", "adsp", "local-sgd"])
def test_sync_models(cluster, sync):
    cluster.start(sync, stop="max_steps = 60")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model)
        assert w.over and w.commits > 0
    assert cluster.ends() == 0


def test_without_with(cluster):
    cluster.start(stop="max_steps = 10")
    model = arrays()
    w = cluster.worker(model)
    while w.step(1.0, BATCH):  # the first one makes it join
        pass
    assert w.steps >= 10 and cluster.ends() == 0
    w.close()


@pytest.mark.parametrize("change", ["strided", "float64", "float16", "fortran"])
def test_arrays_of_other_layouts_and_types(cluster, change):
    cluster.start(stop="max_steps = 20")
    model = arrays()
    if change == "strided":
        model["w1"] = numpy.zeros((HIDDEN, 2 * FEATURES), numpy.float32)[:, ::2]
    elif change == "fortran":
        model["w1"] = numpy.asfortranarray(model["w1"])
    else:
        model = {name: array.astype(change) for name, array in model.items()}
    with cluster.worker(model) as w:
        began = model["w1"].copy()
        assert began.any()
        train(w, model, 10)
        assert numpy.allclose(model["w1"] - began, 0.01, atol=2e-3 if change == "float16" else 1e-6)


def test_pull_drops_what_was_changed(cluster):
    cluster.start("local-sgd", stop="max_steps = 1000", more="[sync.local-sgd]\nlocal_steps = 50")
    model = arrays()
    with cluster.worker(model) as w:
        began = model["w1"].copy()
        train(w, model, 3)
        model["w1"][:] = 77
        w.pull()
        assert numpy.array_equal(model["w1"], began)


def test_values_that_are_no_numbers_are_dropped(cluster, caplog):
    cluster.start(stop="max_steps = 30")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 5)
        model["w1"][0, 0] = numpy.nan
        assert w.step(1.0, BATCH)
        assert numpy.isfinite(model["w1"]).all()
        train(w, model)
    assert cluster.ends() == 0
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len([each for each in warnings if "not finite" in each.message]) == 1


def test_losses(cluster):
    cluster.start(stop="max_steps = 40")
    model = arrays()
    with cluster.worker(model) as w:
        for loss in (None, 1, 1.5, numpy.float32(2), numpy.array(2.5), float("nan")):
            train(w, model, 2, loss)
        assert not w.over
        with pytest.raises((TypeError, ValueError)):
            w.step("much")
        train(w, model)
    assert cluster.ends() == 0


class LossOfGpu:
    """As a tensor on a GPU: whoever reads it waits for the device."""

    is_cpu = False
    reads = 0

    def __init__(self, value):
        self.value = value

    def detach(self):
        return self

    def __mul__(self, factor):
        return LossOfGpu(self.value * factor)

    def __add__(self, other):
        return LossOfGpu(self.value + other.value)

    def item(self):
        LossOfGpu.reads += 1
        return self.value


def test_losses_of_a_gpu_are_read_twice_a_second(cluster):
    cluster.start("asp", stop="max_steps = 2000")
    model = arrays()
    began = time.monotonic()
    with cluster.worker(model) as w:
        steps = train(w, model, 500, LossOfGpu(1.0))
    assert steps == 500 and 1 <= LossOfGpu.reads <= 2 + 2 * (time.monotonic() - began)


# --- refusals ------------------------------------------------------------------------------------


def refused(cluster, model, words, **options):
    with pytest.raises(rubato.BadInput) as error:
        cluster.worker(model, **options)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert isinstance(error.value, ValueError) and error.value.code == "bad_input"


def test_models_that_do_not_fit(cluster):
    cluster.start()
    model = arrays()
    model["w2"] = numpy.zeros((CLASSES, 5), numpy.float32)
    refused(cluster, model, 'tensor 3 is "w2" [4, 5]')
    del model["w2"], model["b2"]
    refused(cluster, model, '"dense2.weight" [4, 16] is missing')
    refused(cluster, dict(arrays(), more=numpy.zeros(1, numpy.float32)), 'tensor 5 is "more" [1]')
    refused(cluster, dict(arrays(), b1=numpy.zeros(HIDDEN, int)), 'array "b1" is of <i8')
    refused(cluster, dict(arrays(), b1=numpy.zeros(HIDDEN, ">f4")), 'array "b1" is of >f4')
    refused(cluster, dict(arrays(), b1=[0.0] * HIDDEN), '"b1" is a list')
    fixed = arrays()
    fixed["b1"].flags.writeable = False
    refused(cluster, fixed, 'array "b1" is read-only')
    shared = arrays()
    shared["b1"] = shared["w1"][0:2].reshape(-1)[:HIDDEN]
    refused(cluster, shared, "overlap in memory")
    for nothing in ({}, [], 3, "model", None, numpy.zeros(3)):
        refused(cluster, nothing, "model is a")
    refused(cluster, arrays(), "buffers", buffers="mean")


def test_names_and_files(cluster):
    cluster.start(workers=("a", "b"))
    refused(cluster, arrays(), "which of its 2 workers is this?")
    refused(cluster, arrays(), 'has no such worker; it has a, b', name="c")
    with pytest.raises(rubato.Error) as error:
        rubato.Worker("absent.toml", arrays(), scheduler=cluster.endpoint)
    assert "absent.toml" in str(error.value)


def test_no_scheduler(cluster):
    cluster.start()
    with pytest.raises(rubato.BadInput) as error:
        rubato.Worker(cluster.file, arrays())
    for words in ("rubato up", "RUBATO_SCHEDULER", "RUBATO_ALONE=1"):
        assert words in str(error.value)


def test_another_sync_model(cluster):
    cluster.start("bsp")
    with pytest.raises(rubato.Refused) as error:
        with rubato.Worker(cluster.file, arrays(), scheduler=cluster.endpoint, sync="asp"):
            raise AssertionError("it has joined")
    assert "asp" in str(error.value)


def test_another_seed(cluster, monkeypatch):
    cluster.start()
    monkeypatch.setenv("RUBATO_SEED", "77")
    assert rubato.this(cluster.file).seed == 77
    with pytest.raises(rubato.Refused):
        with cluster.worker(arrays()):
            raise AssertionError("it has joined")


def test_a_rate_that_the_loop_does_not_read(cluster):
    cluster.start("tempo", workers=("a", "b"), stop="max_seconds = 30")
    models = arrays(), arrays()

    def deaf(w, model):
        with pytest.raises(rubato.BadInput) as error:
            train(w, model)
        assert "w.rate" in str(error.value)

    def obeys(w, model):
        rates = []
        while not w.over and len(rates) < 200:
            rates.append(w.rate)
            w.step(1.0, BATCH)
        return rates

    def loop(i, how):
        with cluster.worker(models[i], name="ab"[i]) as w:
            return how(w, models[i])

    in_threads(lambda: loop(0, deaf), lambda: loop(1, obeys))


# --- who is it -----------------------------------------------------------------------------------


def test_this(cluster, monkeypatch):
    cluster.start(workers=("a", "b"))
    assert rubato.this(cluster.file, name="b") == rubato.Identity("b", 1, 2, 1, BATCH, None)
    monkeypatch.setenv("RUBATO_NAME", "a")
    assert rubato.this(cluster.file, name="b").name == "a"
    monkeypatch.setenv("RUBATO_FILE", str(cluster.file))
    assert rubato.this("elsewhere.toml").workers == 2


# --- mini-batches --------------------------------------------------------------------------------


def numbers():
    x = numpy.arange(SAMPLES * FEATURES, dtype=numpy.float32).reshape(SAMPLES, FEATURES)
    return x, numpy.arange(SAMPLES) % CLASSES


def test_batches_share_out_the_samples(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 100")
    x, y = numbers()

    def loop(name):
        seen = []
        with cluster.worker(arrays(), name=name) as w:
            for a, b in w.batches((x, y), BATCH):
                assert a.shape == (BATCH, FEATURES) and b.shape == (BATCH,)
                assert (a[:, 0].astype(int) // FEATURES % CLASSES == b).all()
                seen += [int(each) // FEATURES for each in a[:, 0]]
                w.step(1.0, BATCH)
            assert w.over
        return seen

    a, b = in_threads(lambda: loop("a"), lambda: loop("b"))
    assert not set(a) & set(b)
    assert set(a) | set(b) == set(range(SAMPLES))
    each = SAMPLES // 2
    assert len(set(a[:each])) == each  # once through all of them before the next round


def test_batches_of_other_kinds(cluster):
    cluster.start("asp", stop="max_steps = 1000")
    x, y = numbers()
    with cluster.worker(arrays()) as w:

        def first(*arguments, **options):
            for batch in w.batches(*arguments, **options):
                w.step(1.0, 1)
                return batch

        assert first(x).shape == (BATCH, FEATURES)
        assert first(x, 3).shape == (3, FEATURES)
        assert first(list(range(SAMPLES)), 3) and len(first(list("ab" * 50), 4)) == 4
        assert first(x, labels=y.tolist()).shape == (BATCH, FEATURES)
        loader = [1, 2, 3]
        seen = []
        for each in w.batches(Loader(loader)):
            w.step(1.0, 1)
            seen.append(each)
            if len(seen) == 7:
                break
        assert seen == [1, 2, 3, 1, 2, 3, 1]
        for arguments, words in (
            ((x, 0), "size = 0"),
            (((x, y[:5]), 4), "of 5"),
            ((x[:0], 4), "no samples"),
            ((Loader(loader), 4), "leave size out"),
            ((iter(loader),), "one pass"),
            ((3,), "is a int"),
        ):
            with pytest.raises(rubato.BadInput) as error:
                next(w.batches(*arguments))
            assert words in str(error.value)
        with pytest.raises(rubato.BadInput) as error:
            next(w.batches((x, y - 1), 4))
        assert "is -1" in str(error.value)
        with pytest.raises(rubato.BadInput) as error:
            next(w.batches(Loader([])))
        assert "no mini-batches" in str(error.value)


class Loader:
    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(self._batches)


def test_alone(monkeypatch, caplog):
    monkeypatch.setenv("RUBATO_ALONE", "1")
    assert rubato.this("absent.toml").name == "alone"
    x, y = numbers()
    seen = []
    with rubato.Worker("absent.toml", arrays()) as w:
        assert "trains alone" in caplog.text
        for a, _ in w.batches((x, y), 16):
            seen += list(a[:, 0])
            assert w.step(1.0, 16)
        assert w.over and w.steps == SAMPLES // 16 and w.step(1.0) is False
    assert sorted(seen) == sorted(x[:, 0])
    with rubato.Worker("absent.toml", arrays()) as w:
        assert len(list(w.batches(Loader([1, 2])))) == 2


def test_logging_is_left_to_the_user():
    logger = logging.getLogger("rubato")  # Python shows warnings where nobody has configured it
    assert not logger.handlers and logger.level == logging.NOTSET


# --- threads, copies -----------------------------------------------------------------------------


def test_a_second_thread_is_told_that_the_worker_is_busy(cluster):
    cluster.start(workers=("a", "b"))  # b does not come
    model = arrays()
    w = cluster.worker(model, name="a")
    waiting = threading.Thread(target=w.__enter__)
    waiting.start()
    while not w._lock.locked():
        pass
    for call in (lambda: w.step(1.0), w.pull, w.close):
        with pytest.raises(rubato.Error) as error:
            call()
        assert error.value.code == "busy"
    assert waiting.is_alive() and not w.over
    cluster.scheduler.terminate()  # the run ends, and the thread with it
    waiting.join(60)
    assert not waiting.is_alive() and w.over


def test_a_worker_is_not_copied(cluster):
    cluster.start("asp")
    with cluster.worker(arrays()) as w:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to this process"):
                way(w)


def test_an_array_that_was_replaced(cluster):
    cluster.start("asp", stop="max_steps = 1000")
    model = arrays()
    with cluster.worker(model) as w:
        train(w, model, 3)
        model["b1"] = model["b1"] + 1
        with pytest.raises(rubato.BadInput, match='array "b1" was replaced'):
            train(w, model)
