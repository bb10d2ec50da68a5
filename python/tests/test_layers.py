"""rubato.layers: one model, trained by PyTorch and by `rubato worker` in the same cluster."""

import json
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rubato  # noqa: E402
from conftest import COMMAND, DEADLINE, in_threads  # noqa: E402

torch.set_num_threads(1)

SIDE, CLASSES, BATCH = 12, 4, 16
ROUNDS = 30
IMAGES = "{}-images-idx3-ubyte"
DATA = f"""[dataset]
path = "{IMAGES.format('train')}"
held_out_path = "{IMAGES.format('test')}"
schema = "schema.json"
partition = "dirichlet:1"
"""
WORKERS = ("command", "torch-a", "torch-b")


def net(width=6):
    """Each layer that there is, in a Sequential that holds another one."""
    features = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, width, 3, stride=2)
    )
    return nn.Sequential(
        features, nn.ReLU(), nn.Flatten(), nn.Linear(width * 4, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def write_images(place, name, seed, samples):
    """Noise with a bright corner, which is the class; in MNIST's format."""
    random = numpy.random.default_rng(seed)
    y = numpy.arange(samples) % CLASSES
    x = random.integers(0, 120, (samples, SIDE, SIDE)).astype(numpy.uint8)
    for image, label in zip(x, y):
        top, left = label // 2 * SIDE // 2, label % 2 * SIDE // 2
        image[top : top + SIDE // 2, left : left + SIDE // 2] += 60
    sizes = b"".join(size.to_bytes(4, "big") for size in x.shape)
    images = place / IMAGES.format(name)
    images.write_bytes(b"\0\0\x08\x03" + sizes + x.tobytes())
    labels = b"\0\0\x08\x01" + sizes[:4] + y.astype(numpy.uint8).tobytes()
    (place / images.name.replace("images", "labels").replace("idx3", "idx1")).write_bytes(labels)
    return x, y


def command(place, *words):
    done = subprocess.run([COMMAND, *words], cwd=place, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def place(cluster):
    cluster.images = {
        name: write_images(cluster.place, name, seed, samples)
        for name, seed, samples in (("train", 1, 320), ("test", 2, 80))
    }
    command(cluster.place, "data", IMAGES.format("train"), "--schema", "schema.json")
    torch.manual_seed(5)
    cluster.net = net()
    rubato.layers(cluster.net, (1, SIDE, SIDE), cluster.place / "net.safetensors")
    return cluster.place


def write(cluster, rounds=ROUNDS, stop=None):
    cluster.write(
        workers=WORKERS,
        stop=stop or f"max_steps = {len(WORKERS) * rounds}",
        model='layers = "net.safetensors"\nstart = "net.safetensors"',
        training="learning_rate = 0.1",
        data=DATA,
    )


def inputs(cluster, name):
    """The images as Rubato scales them."""
    images, labels = cluster.images[name]
    mean, factor = json.loads((cluster.place / "schema.json").read_text())["scalings"][0]
    x = ((images.astype(numpy.float64) - mean) * factor).astype(numpy.float32)
    return torch.tensor(x).unsqueeze(1), torch.tensor(labels)


def loop(cluster, name, data):
    """Trains. Returns: the parameters after each load, flat."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    states = []
    with cluster.worker(model, optimizer, name=name) as w:
        for x, y in w.batches(data, BATCH):
            states.append(flat(model))
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))
    return states


def flat(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def loaded(path):
    model = net()
    rubato.load(path, model)
    return model


def results(directory):
    return json.loads((directory / "results.json").read_text())["runs"][0]


def measured(path):
    """Loss and accuracy that the run has measured on the parameters of a file."""
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = header["__metadata__"]
    return float(facts["rubato.run.held_out_loss"]), float(facts["rubato.run.held_out_accuracy"])


def of_pytorch(model, data):
    """The same, by PyTorch."""
    x, y = data
    with torch.no_grad():
        scores = model(x)
    return F.cross_entropy(scores, y).item(), (scores.argmax(1) == y).double().mean().item()


def test_pytorch_and_the_command_train_one_model(cluster, place):
    write(cluster)
    command(place, "up", "cluster.toml", "--sync", "bsp", "--out", "commands")
    # A run ends some rounds later where the machine is busy. So this one is longer.
    write(cluster, rounds=ROUNDS + 20)
    data = inputs(cluster, "train")
    cluster.start("bsp", again=True)
    worker = cluster.command("command")
    one, other = in_threads(*(lambda name=name: loop(cluster, name, data) for name in WORKERS[1:]))
    assert cluster.ends() == 0, cluster.log
    assert worker.wait(DEADLINE) == 0

    assert torch.equal(one[0], flat(cluster.net))
    assert min(len(one), len(other)) >= ROUNDS + 20 and abs(len(one) - len(other)) <= 1
    for mine, yours in zip(one, other):
        assert torch.equal(mine, yours)
    run = results(place / "out")
    assert sorted(each["id"] for each in run["workers"]) == sorted(WORKERS)
    for each in run["workers"]:
        assert each["commits"] >= ROUNDS - 1

    # Files of the run, in a module, give the loss that the run has measured.
    held_out = inputs(cluster, "test")
    for name in ("model", "best"):
        path = place / f"out/{name}.safetensors"
        assert of_pytorch(loaded(path), held_out) == pytest.approx(measured(path), abs=1e-5)

    # Three of `rubato worker` have the same parameters after as many rounds.
    theirs = flat(loaded(place / "commands/model.safetensors"))
    apart = [float((each - theirs).abs().max()) for each in one]
    closest = apart.index(min(apart))
    assert apart[closest] < 1e-5 and closest >= ROUNDS - 1
    assert min(apart[: ROUNDS - 10]) > 1e-3


def test_a_run_to_a_target(cluster, place):
    write(cluster, stop="target_accuracy = 0.95\nmax_seconds = 100")
    data = inputs(cluster, "train")
    cluster.start("bsp", again=True)
    cluster.command("command")
    in_threads(*(lambda name=name: loop(cluster, name, data) for name in WORKERS[1:]))
    assert cluster.ends() == 0, cluster.log
    assert results(place / "out")["time_to_target_s"] is not None
    best = place / "out/best.safetensors"
    loss, accuracy = of_pytorch(loaded(best), inputs(cluster, "test"))
    assert (loss, accuracy) == pytest.approx(measured(best), abs=1e-5)
    assert accuracy > 0.8
    # `rubato evaluate` and PyTorch read the file alike.
    line = command(place, "evaluate", str(best), "--data", IMAGES.format("test"), "--json")
    assert json.loads(line)["loss"] == pytest.approx(loss, abs=1e-5)


# --- refusals ------------------------------------------------------------------------------------


class Own(nn.Module):
    pass


@pytest.mark.parametrize(
    "model, words",
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "1 is a BatchNorm1d"),
        (nn.Sequential(nn.Sequential(nn.ReLU(), nn.GELU()), nn.Linear(4, 2)), "0.1 is a GELU"),
        (nn.Sequential(nn.Dropout(), nn.Linear(4, 2)), "0 is a Dropout"),
        (Own(), "the model is a Own"),
        (nn.Sequential(nn.Linear(4, 2, bias=False)), "0 is a Linear without bias"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Linear(4, 2)), "0 is a Conv2d with groups"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, dilation=2), nn.Linear(4, 2)), "with groups, dila"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding="same"), nn.Linear(4, 2)), "another padding"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding_mode="reflect")), "another padding"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, bias=False)), "0 is a Conv2d without bias"),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)), "0 is a MaxPool2d with ceil_mode"),
        (nn.Sequential(nn.Flatten(2)), "0 is a Flatten of some dimensions"),
        (nn.Sequential(nn.Linear(4, 2), nn.ReLU()), "the last layer is a Linear"),
        (nn.Sequential(), "the last layer is a Linear"),
    ],
)
def test_layers_that_rubato_does_not_have(tmp_path, model, words):
    refused(tmp_path, model, 4, words)


@pytest.mark.parametrize("shape", [(), (28, 28), (0, 4, 4), 0, (1, 1, 1, 1)])
def test_samples_of_other_shapes(tmp_path, shape):
    refused(tmp_path, net(), shape, "a sample of the shape")


def refused(place, model, shape, words):
    with pytest.raises(rubato.BadInput) as error:
        rubato.layers(model, shape, place / "net.safetensors")
    assert words in str(error.value) and "\n" not in str(error.value)
    assert list(place.iterdir()) == []


def without_relu():
    model = net()
    return nn.Sequential(*[each for i, each in enumerate(model) if i != 1])


@pytest.mark.parametrize(
    "other, words",
    [
        (
            lambda: net(width=7),
            "has a model of 567 parameters, the cluster's has 498: use the same file of "
            "model.layers on every node",
        ),
        (without_relu, ": copy the files that these keys name to every node"),
    ],
)
def test_another_file_of_layers_on_one_box(cluster, place, other, words):
    write(cluster)
    box = place / "box"
    box.mkdir()
    for file in [each for each in place.iterdir() if each.is_file()]:
        (box / file.name).write_bytes(file.read_bytes())
    rubato.layers(other(), (1, SIDE, SIDE), box / "net.safetensors")
    cluster.start("bsp", again=True)
    assert cluster.command("command", file=box / "cluster.toml").wait(DEADLINE) == 2
    line = (place / "command.log").read_text().splitlines()[-1]
    assert "refused" in line and words in line and "same cluster file" not in line
    assert "worker 0" not in cluster.log


def test_a_loop_needs_no_schema(cluster, place):
    """The file of the layers says the inputs, and the scheduler compares them with the data."""
    write(cluster, stop="max_steps = 60")
    text = cluster.file.read_text()
    cluster.file.write_text(text.replace('schema = "schema.json"\n', ""))
    assert cluster.file.read_text() != text
    data = inputs(cluster, "train")
    cluster.start("bsp", again=True)
    worker = cluster.command("command")
    one, other = in_threads(*(lambda name=name: loop(cluster, name, data) for name in WORKERS[1:]))
    assert cluster.ends() == 0, cluster.log
    assert worker.wait(DEADLINE) == 0
    assert len(one) > 10 and torch.equal(one[5], other[5])


def test_a_loop_of_another_module(cluster, place):
    write(cluster)
    cluster.start("bsp", again=True)
    with pytest.raises(rubato.BadInput) as error:
        cluster.worker(net(width=7), name="torch-a")
    for words in ('"0.3.weight" [7, 4, 3, 3]', "[6, 4, 3, 3]"):
        assert words in str(error.value)


def test_layers_that_do_not_fit_the_data(cluster, place):
    rubato.layers(net(), (1, SIDE + 2, SIDE), place / "net.safetensors")
    write(cluster)
    done = subprocess.run(
        [COMMAND, "scheduler", "cluster.toml"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 2
    assert "net.safetensors has inputs [1, 14, 12], and the data have [1, 12, 12]" in done.stderr
