"""Models of PyTorch."""

import copy
import ctypes
import gc
import random
import warnings
import weakref

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rubato  # noqa: E402
from conftest import BATCH, CLASSES, FEATURES, HIDDEN, SAMPLES, in_threads  # noqa: E402
from rubato import _torch  # noqa: E402
from rubato._model import KINDS  # noqa: E402

torch.set_num_threads(1)


def net():
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(SAMPLES) % CLASSES
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    x[torch.arange(SAMPLES), y] += 3
    return x, y


def fit(w, model, optimizer, steps=None):
    """The loop of the README. Returns: its losses."""
    losses = []
    for x, y in w.batches(data(), BATCH):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not w.step(loss, len(x)) or len(losses) == steps:
            return losses


@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop]
)
def test_any_optimizer(cluster, optimizer):
    cluster.start(stop="max_steps = 60")
    model = net()
    made = optimizer(model.parameters(), lr=0.01)
    with cluster.worker(model, made) as w:
        losses = fit(w, model, made)
    assert cluster.ends() == 0
    assert losses[-1] < losses[0]


def test_parameters_and_dicts_of_tensors(cluster):
    for way in (
        lambda model: model.parameters(),
        lambda model: list(model.parameters()),
        lambda model: dict(model.named_parameters()),
        lambda model: model.state_dict(),
    ):
        cluster.start(stop="max_steps = 20")
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with cluster.worker(way(model), optimizer) as w:
            fit(w, model, optimizer)
            assert w.over
        assert cluster.ends() == 0


# --- the table -----------------------------------------------------------------------------------


def table(model, **options):
    made = _torch.of_module(torch, model, None, options.get("buffers", "average"))
    return {entry.name: (list(entry.shape), KINDS[entry.kind]) for entry in made.entries}


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.frozen = nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.register_buffer("mask", torch.ones(3, dtype=torch.bool))
        self.register_buffer("cache", torch.ones(3), persistent=False)


def test_kinds_of_tensors():
    assert table(Mixed()) == {
        "embed.weight": ([5, 3], "trained"),
        "norm.weight": ([3], "trained"),
        "norm.bias": ([3], "trained"),
        "norm.running_mean": ([3], "averaged"),
        "norm.running_var": ([3], "averaged"),
        "norm.num_batches_tracked": ([], "frozen"),
        "frozen.weight": ([3, 3], "frozen"),
        "frozen.bias": ([3], "frozen"),
    }
    own = table(Mixed(), buffers="own")
    assert not any(kind == "averaged" for _, kind in own.values()) and len(own) == 5
    tied = _torch.of_module(torch, Mixed(), None, "average")
    assert tied.aliases == {"head.weight": "embed.weight"}


def test_tensors_tied_by_memory_alone_are_sent_once():
    model = net()
    model.add_module("copy", nn.Linear(FEATURES, HIDDEN))
    model.copy.weight.data = model[0].weight.data
    assert "copy.weight" not in table(model) and "copy.bias" in table(model)
    model.copy.weight.data = model[0].weight.data.view(-1)[:-FEATURES].view(HIDDEN - 1, FEATURES)
    with pytest.raises(rubato.BadInput, match="overlap in memory"):
        table(model)


def test_wrappers_leave_no_trace_in_names():
    assert list(table(nn.DataParallel(net()))) == list(table(net()))
    compiled = nn.Module()
    compiled._orig_mod = net()  # as torch.compile of PyTorch 2 does
    assert list(table(compiled)) == list(table(net()))
    outer = nn.Module()
    outer.module = net()
    assert list(table(outer))[0] == "module.0.weight"


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.Parameter(torch.zeros(3, 3).to_sparse()), "is sparse"),
        (lambda: nn.Parameter(torch.zeros(3, dtype=torch.complex64)), "is complex"),
        (lambda: nn.Parameter(torch.zeros(3, device="meta")), "device meta"),
        (lambda: nn.UninitializedParameter(), "run one mini-batch first"),
        (lambda: nn.Parameter(torch.zeros(1, 1).expand(3, 3)), "share memory"),
        (lambda: nn.Parameter(torch.zeros(3, 3), requires_grad=False), None),
    ],
)
def test_tensors_that_cannot_travel(make, words):
    model = net()
    model.odd = make()
    if words is None:
        assert table(model)["odd"] == ([3, 3], "frozen")
        return
    with pytest.raises(rubato.BadInput, match='tensor "odd" ') as error:
        table(model)
    assert words in str(error.value)


def test_a_quantised_buffer_is_refused():
    quantised = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)
    with pytest.raises(rubato.BadInput, match='tensor "q" is quantised'):
        _torch.of_tensors(torch, [("q", quantised)], None)


def test_a_tensor_of_another_class_is_refused():
    class Spread(torch.Tensor):  # as DTensor
        @classmethod
        def __torch_dispatch__(cls, function, kinds, arguments=(), named=None):
            return function(*arguments, **(named or {}))

    spread = torch.zeros(3).as_subclass(Spread)
    with pytest.raises(rubato.BadInput, match='tensor "s" is a Spread'):
        _torch.of_tensors(torch, [("s", spread)], None)


def test_other_models_are_refused(cluster):
    cluster.start()
    model = net()
    for wrong in ([model[0].weight, 3], {"a": model[0].weight, "b": numpy.zeros(3)}):
        with pytest.raises(rubato.BadInput, match="others are tensors"):
            cluster.worker(wrong)
    with pytest.raises(rubato.BadInput, match="optimizer is a function"):
        cluster.worker(model, lambda: None)
    other = nn.Sequential(nn.Linear(FEATURES, 7), nn.ReLU(), nn.Linear(7, CLASSES))
    with pytest.raises(rubato.BadInput, match='tensor 1 is "0.weight" .7, 10.'):
        cluster.worker(other)


# --- layouts and types ---------------------------------------------------------------------------


def moved(cluster, model, steps=10):
    """Adds 1/1024 to each parameter that travels, in so many steps of one commit."""
    with cluster.worker(model) as w:
        began = [each.detach().clone().float() for each in model.parameters()]
        for _ in range(steps):
            with torch.no_grad():
                for each in model.parameters():
                    each.add_(1 / 1024)
            w.step(1.0, BATCH)
        return began, [each.detach().clone().float() for each in model.parameters()]


def check_moved(before, after, tolerance=1e-6):
    for one, other in zip(before, after):
        assert torch.allclose(other - one, torch.full_like(one, 10 / 1024), atol=tolerance)


def test_strided_parameters(cluster):
    cluster.start(stop="max_steps = 1000")
    model = net()
    model[0].weight.data = torch.randn(FEATURES, HIDDEN).t()
    model[2].weight.data = torch.randn(CLASSES, 2 * HIDDEN)[:, ::2]
    assert not model[0].weight.is_contiguous() and not model[2].weight.is_contiguous()
    check_moved(*moved(cluster, model))
    assert not model[0].weight.is_contiguous()


def test_channels_last_is_staged_in_the_order_of_the_shape():
    conv = nn.Conv2d(2, 3, 2, bias=False).to(memory_format=torch.channels_last)
    before = conv.weight.detach().clone()
    made = _torch.of_module(torch, conv, None, "average")
    address = made.out()[0]
    assert address != conv.weight.data_ptr()
    floats = (ctypes.c_float * conv.weight.numel()).from_address(address)
    assert list(floats) == before.contiguous().flatten().tolist()
    floats[1] = 5
    made.back()
    assert conv.weight[0, 0, 0, 1] == 5 and conv.weight[0, 0, 0, 0] == before[0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types(cluster, dtype):
    cluster.start(stop="max_steps = 1000")
    model = net().to(dtype)
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(1 / 16)
    before, after = moved(cluster, model)
    if dtype == torch.float64:
        check_moved(before, after)
    for each in model.parameters():
        assert each.dtype == dtype and torch.isfinite(each).all()


def test_mixed_types_on_two_boxes(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 20")
    models = net(), net().double()

    def loop(i):
        with cluster.worker(models[i], name="ab"[i]) as w:
            while not w.over:
                w.step(1.0, BATCH)

    in_threads(lambda: loop(0), lambda: loop(1))
    for one, other in zip(models[0].parameters(), models[1].parameters()):
        assert torch.equal(one, other.float())


def test_mixed_precision_with_steps_that_are_skipped(cluster):
    cluster.start(stop="max_steps = 40")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with cluster.worker(model, optimizer) as w:
        for i, (x, y) in enumerate(w.batches(data(), BATCH)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            loss.backward()
            before = [each.detach().clone() for each in model.parameters()]
            if i % 3:  # else as a GradScaler does with gradients that are not finite
                optimizer.step()
            w.step(loss, len(x))
            same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
            assert same == (i % 3 == 0)
    assert cluster.ends() == 0


# --- learning rates ------------------------------------------------------------------------------


class Probe(torch.optim.SGD):
    """Notes the learning rate within its steps."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rates = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


SCHEDULERS = [
    lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
    lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=20),
    lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
]


@pytest.mark.parametrize("make", SCHEDULERS)
@pytest.mark.parametrize("first", ["scheduler", "worker"])
def test_rates_with_schedulers(make, first):
    def rates(rate, first):
        model = net()
        optimizer = Probe(model.parameters(), lr=0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler = make(optimizer) if first == "scheduler" else None
            made = _torch.of_module(torch, model, optimizer, "average")
            made.follow(lambda: rate)
            if scheduler is None:
                scheduler = make(optimizer)
            outside = []
            for _ in range(6):
                model(torch.ones(1, FEATURES)).sum().backward()
                optimizer.step()
                outside.append(optimizer.param_groups[0]["lr"])
                scheduler.step()
            made.unfollow()
            optimizer.step()
        return optimizer.rates, outside

    plain, outside = rates(1, first)
    scaled, still_outside = rates(0.25, first)
    assert scaled[:6] == [0.25 * each for each in plain[:6]]
    assert scaled[6] == plain[6] and still_outside == outside and len(set(plain)) > 1


def test_rate_is_put_back_after_a_step_that_fails():
    model = net()
    optimizer = Probe(model.parameters(), lr=0.1)
    made = _torch.of_module(torch, model, optimizer, "average")
    made.follow(lambda: 0.5)
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    optimizer.step()
    assert optimizer.rates == [0.05, 0.05] and optimizer.param_groups[0]["lr"] == 0.1


def test_tempo_scales_the_optimizer(cluster):
    cluster.start("tempo", workers=("a", "b"), stop="max_steps = 200")

    def loop(i):
        model = net()
        optimizer = Probe(model.parameters(), lr=0.1)
        with cluster.worker(model, optimizer, name="ab"[i]) as w:
            told = []
            for x, y in w.batches(data(), BATCH):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                told.append(0.1 * w.rate)
                optimizer.step()
                w.step(loss, len(x))
            assert optimizer.rates == told and optimizer.param_groups[0]["lr"] == 0.1
            return told

    both = in_threads(lambda: loop(0), lambda: loop(1))
    assert any(each != 0.1 for each in both[0] + both[1])
    with pytest.raises(rubato.BadInput, match="tempo sets the learning rate"):
        cluster.worker(net(), name="a")


def test_a_restart_forgets_the_moments(cluster, caplog):
    cluster.start(stop="max_steps = 60")
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with cluster.worker(model, optimizer) as w:
        fit(w, model, optimizer, 5)
        assert optimizer.state
        with torch.no_grad():
            model[0].weight[0, 0] = float("inf")
        assert w.step(1.0, BATCH)
        assert not optimizer.state and torch.isfinite(model[0].weight).all()
        fit(w, model, optimizer)
    assert sum("not finite" in each.message for each in caplog.records) == 1
    assert cluster.ends() == 0


# --- what may happen between two steps ------------------------------------------------------------


def test_load_state_dict_and_clipping_are_part_of_the_update(cluster):
    cluster.start(workers=("a", "b"), stop="max_steps = 1000")
    models = net(), net()
    joined = []

    def loop(i):
        with cluster.worker(models[i], name="ab"[i]) as w:
            before = models[i][0].weight.detach().clone()
            state = {name: each + 0.5 for name, each in models[i].state_dict().items()}
            models[i].load_state_dict(state)
            w.step(1.0, BATCH)
            joined.append(models[i][0].weight.detach().clone())
            assert torch.allclose(joined[-1] - before, torch.tensor(0.5), atol=1e-6)

    in_threads(lambda: loop(0), lambda: loop(1))
    assert torch.equal(*joined)


def test_gradient_accumulation_and_parameters_without_gradient(cluster):
    cluster.start("asp", stop="max_steps = 40")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with cluster.worker(model, optimizer) as w:
        bias = model[2].bias.detach().clone()
        model[2].bias.requires_grad_(False)  # may be switched: it has travelled from the beginning
        for i, (x, y) in enumerate(w.batches(data(), BATCH)):
            F.cross_entropy(model(x), y).backward()
            if i % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
                w.step()  # no loss
            if w.steps == 10:
                break
        assert torch.equal(model[2].bias, bias)


def test_a_replaced_parameter(cluster):
    cluster.start("asp", stop="max_steps = 10000")
    model = net()
    with cluster.worker(model) as w:
        w.step(1.0, BATCH)
        model[0].bias = nn.Parameter(torch.zeros(HIDDEN))
        with pytest.raises(rubato.BadInput, match='parameter "0.bias" was replaced'):
            for _ in range(1000):
                w.step(1.0, BATCH)
        assert w.commits <= 101


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda model: model.half(), 'tensor "0.weight" is torch.float16'),
        (lambda model: model.add_module("more", nn.Linear(2, 2)), 'parameter "more.weight" is new'),
        (lambda model: model.__delitem__(2), 'parameter "2.weight" is no longer'),
    ],
)
def test_a_model_that_became_another(cluster, change, words):
    cluster.start("asp", stop="max_steps = 10000")
    model = net()
    with cluster.worker(model) as w:
        change(model)
        with pytest.raises(rubato.BadInput) as error:
            for _ in range(200):
                w.step(1.0, BATCH)
        assert words in str(error.value)


def test_a_frozen_parameter_that_is_trained_after_all():
    model = net()
    model.more = nn.Linear(2, 2).requires_grad_(False)
    made = _torch.of_module(torch, model, None, "average")
    made.look()
    model.more.weight.requires_grad_(True)
    with pytest.raises(rubato.BadInput, match='parameter "more.weight" was frozen'):
        made.look()


def test_moved_memory_is_followed(cluster):
    cluster.start(stop="max_steps = 1000")
    model = net()
    with cluster.worker(model) as w:
        for each in model.parameters():
            each.data = each.data.clone()
        before = model[0].weight.detach().clone()
        model[0].weight.data += 1
        w.step(1.0, BATCH)
        assert torch.allclose(model[0].weight, before + 1, atol=1e-6)


def test_a_kept_graph_notices(cluster):
    if not hasattr(torch.autograd.graph, "increment_version"):
        pytest.skip("this PyTorch cannot tell autograd that values have changed")
    cluster.start(stop="max_steps = 1000")
    model = net()
    with cluster.worker(model) as w:
        loss = model(torch.ones(1, FEATURES)).sum()
        w.step(loss.item(), 1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_loader_of_torch_with_processes(cluster):
    cluster.start(stop="max_steps = 60")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*data()), BATCH, shuffle=True, num_workers=1
    )
    with cluster.worker(model, optimizer) as w:
        for x, y in w.batches(loader):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
        assert w.over
    assert cluster.ends() == 0


def test_nothing_is_kept_alive(cluster):
    cluster.start("asp")
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    w = cluster.worker(model, optimizer)
    w.close()
    gone = weakref.ref(w)
    del w
    gc.collect()
    assert gone() is None


# --- evaluation ----------------------------------------------------------------------------------


def test_measuring_leaves_no_trace():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))
    model[1].eval()
    made = _torch.of_module(torch, model, None, "average")
    modes = [each.training for each in model.modules()]
    state = copy.deepcopy(model.state_dict())
    draws = torch.rand(1).item(), random.random(), numpy.random.rand()
    for seeded in (torch.manual_seed, random.seed, numpy.random.seed):
        seeded(7)
    expected = torch.rand(1).item(), random.random(), numpy.random.rand()
    for seeded in (torch.manual_seed, random.seed, numpy.random.seed):
        seeded(7)
    put_back = made.save()
    with pytest.raises(ZeroDivisionError):
        with made.measuring():
            assert not any(each.training for each in model.modules())
            assert not torch.is_grad_enabled()
            for each in model.parameters():
                each.add_(1)
            torch.rand(9), random.random(), numpy.random.rand()
            1 / 0
    put_back()
    assert (torch.rand(1).item(), random.random(), numpy.random.rand()) == expected != draws
    assert [each.training for each in model.modules()] == modes and torch.is_grad_enabled()
    assert all(torch.equal(each, state[name]) for name, each in model.state_dict().items())
