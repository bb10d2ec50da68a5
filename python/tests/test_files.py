"""rubato.load: files of runs, damaged files, files of other models."""

import json
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import rubato

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def write(path, tensors, metadata=None):
    """A safetensors file of names and (type, shape, bytes)."""
    header, content = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (kind, shape, data) in tensors.items():
        begin, content = len(content), content + data
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, len(content)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return path


def of(*tensors):
    kinds = {
        torch.float32: "F32",
        torch.float64: "F64",
        torch.float16: "F16",
        torch.bfloat16: "BF16",
        torch.int64: "I64",
        torch.bool: "BOOL",
    }
    return {
        name: (
            kinds[tensor.dtype],
            list(tensor.shape),
            bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()),
        )
        for name, tensor in tensors
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_types(path):
    tensors = [
        (str(dtype), torch.arange(6).reshape(2, 3).to(dtype))
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)
    ]
    tensors.append(("one", torch.tensor(2.5)))
    tensors.append(("none", torch.zeros(0, 3)))
    found = rubato.load(write(path, of(*tensors)))
    assert list(found) == [name for name, _ in tensors]
    for name, tensor in tensors:
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
        found[name].add_(1)


def test_arrays_where_torch_is_not_loaded(path):
    write(path, of(("a", torch.tensor([[1.5, -2.0]])), ("h", torch.tensor([0.5]).bfloat16())))
    code = (
        "import sys, rubato; found = rubato.load(sys.argv[1]); print(found['a'].tolist(), "
        "found['h'].tolist(), type(found['a']).__module__, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={"PYTHONPATH": str(Path(rubato.__file__).parents[1]), **library()},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "[[1.5, -2.0]] [0.5] numpy False\n", done.stderr


def library():
    import os

    return {name: os.environ[name] for name in ("RUBATO_LIBRARY",) if name in os.environ}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def test_a_module_with_tied_weights_and_buffers(path):
    one, other = Tied(), Tied()
    with torch.no_grad():
        one.norm.running_var.fill_(7)
    other.norm.num_batches_tracked.fill_(3)
    sent = [
        (name, tensor)
        for name, tensor in one.state_dict().items()
        if name not in ("head.weight", "norm.num_batches_tracked")
    ]
    write(path, of(*sent), {"head.weight": "embed.weight", "format": "pt"})
    found = rubato.load(path, other)
    assert found["head.weight"] is found["embed.weight"]
    assert other.head.weight is other.embed.weight
    assert torch.equal(other.embed.weight, one.embed.weight) and other.norm.running_var[0] == 7
    assert other.norm.num_batches_tracked == 3  # whole numbers stay on their box
    fresh = Tied()
    fresh.load_state_dict({**fresh.state_dict(), **found}, strict=True)
    write(path, of(*sent))  # tied in the module alone
    rubato.load(path, other)["head.weight"]
    wrapped = nn.DataParallel(Tied())
    rubato.load(path, wrapped)
    assert torch.equal(wrapped.module.embed.weight, one.embed.weight)


def test_files_of_other_models(path):
    model = nn.Linear(3, 2)
    kept = model.weight.detach().clone()
    for tensors, words in (
        ([("weight", torch.zeros(2, 3))], 'it lacks "bias"'),
        (
            [("weight", torch.zeros(2, 3)), ("bias", torch.zeros(2)), ("c", torch.zeros(1))],
            'the model lacks "c"',
        ),
        ([("weight", torch.zeros(2, 4)), ("bias", torch.zeros(2))], 'tensor "weight" is [2, 4]'),
    ):
        with pytest.raises(rubato.BadInput) as error:
            rubato.load(write(path, of(*tensors)), model)
        assert words in str(error.value) and str(path) in str(error.value)
    with pytest.raises(rubato.BadInput, match="4 tensors of a built-in model"):
        names = ("dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias")
        write(path, of(*((name, torch.zeros(2)) for name in names)), {"rubato.model": "{}"})
        rubato.load(path, model)
    with pytest.raises(rubato.BadInput, match="no built-in model"):
        write(path, of(("x", torch.zeros(2)), ("y", torch.zeros(2))), {"rubato.model": "{}"})
        rubato.load(path, model)
    assert torch.equal(model.weight, kept)


def test_layers_of_a_built_in_model_go_in_order(path):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), *(nn.Linear(2, 2) for _ in range(10)))
    values = [torch.randn_like(each) for each in model.parameters()]
    names = [f"{layer}.{part}" for layer in ["conv1", *(f"dense{i}" for i in range(1, 11))]
             for part in ("weight", "bias")]
    write(path, of(*sorted(zip(names, values))), {"rubato.model": "{}"})
    rubato.load(path, model)
    assert all(torch.equal(one, other) for one, other in zip(values, model.parameters()))


def test_damaged_files(path):
    good = write(path, of(("a", torch.zeros(4)))).read_bytes()
    for content in (b"", b"short", good[:20], b"\xff" * 100, (2).to_bytes(8, "little") + b"[]",
                    (3).to_bytes(8, "little") + b"nul"):
        path.write_bytes(content)
        with pytest.raises(rubato.BadInput, match="is no safetensors file"):
            rubato.load(path)
    path.write_bytes(good[:-1])
    with pytest.raises(rubato.BadInput, match="cut off"):
        rubato.load(path)
    for entry, words in (
        (("F32", [5], bytes(16)), "not of its shape"),
        (("F32", [-4], bytes(16)), "not within"),
        (("F8", [4], bytes(16)), "is of F8"),
        (("F32", "x", bytes(16)), "not described"),
    ):
        with pytest.raises(rubato.BadInput, match=words):
            rubato.load(write(path, {"a": entry}))
    with pytest.raises(rubato.Io, match="No such file") as error:
        rubato.load("absent.safetensors")
    assert isinstance(error.value, OSError)
    with pytest.raises(rubato.Io):
        rubato.load(path.parent)


def test_save(path):
    model = Tied()
    model.add_module("low", nn.Linear(2, 2).to(torch.bfloat16))
    model.norm.num_batches_tracked.fill_(3)
    rubato.save(path, model)
    found = rubato.load(path)
    assert set(found) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
    fresh = Tied()
    fresh.add_module("low", nn.Linear(2, 2).to(torch.bfloat16))
    rubato.load(path, fresh)
    fresh.load_state_dict(found, strict=True)
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0
    values = sum(each.numel() * 4 for each in model.state_dict().values())
    assert path.stat().st_size < values + 1200
    strided = torch.arange(6.0).reshape(2, 3).t()
    rubato.save(path, {"strided": strided, "none": torch.zeros(0, 2), "one": torch.tensor(1.5)})
    found = rubato.load(path)
    assert torch.equal(found["strided"], strided) and found["none"].shape == (0, 2)
    with pytest.raises(rubato.BadInput, match='"c" is of torch.complex64'):
        rubato.save(path, {"c": torch.zeros(2, dtype=torch.complex64)})
    with pytest.raises(rubato.Io, match="No such file"):
        rubato.save(path.parent / "absent/x", model)


def test_random_bytes_never_do_more_than_fail(path):
    good = write(path, of(("a", torch.zeros(4)), ("b", torch.ones(2, 2)))).read_bytes()
    random = numpy.random.default_rng(1)
    failed = 0
    for _ in range(300):
        damaged = bytearray(good)
        for at in random.integers(0, len(good), 3):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            rubato.load(path)
        except rubato.BadInput:
            failed += 1
    assert 0 < failed < 300
