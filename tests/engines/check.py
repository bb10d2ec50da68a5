#!/usr/bin/python3
"""Compares `rubato predict` with onnxruntime and PyTorch on every kind of model.

Usage: check.py RUBATO WORK SCRIPT   SCRIPT runs onnxruntime: onnx_jobs.py; or onnx.mjs, for which
node_modules/onnxruntime-web is in the directory WORK.
"""
import csv
import gzip
import json
import os
import random
import struct
import subprocess
import sys

import numpy
import onnx
import torch
from torch import nn

FASHION = "/usr/share/datasets/fashion-mnist"
TOLERANCE = 1e-5

MODELS = {
    "mlp": ('kind = "mlp"\nhidden = [32, 16]', "table"),
    "svm": ('kind = "svm"', "table"),
    "mlp of texts": ('kind = "mlp"\nhidden = [16]', "mixed"),
    "mlp of a number": ('kind = "mlp"\nhidden = [16]', "number"),
    "mlp far from 0": ('kind = "mlp"\nhidden = [16]', "far"),
    "number far from 0": ('kind = "mlp"\nhidden = [16]', "far number"),
    "mlp of images": ('kind = "mlp"\nhidden = [32]', "fashion"),
    "lenet": ('kind = "lenet"', "fashion"),
    "cnn1d": ('kind = "cnn1d"\nhidden = [24, 16]', "fashion"),
    "lstm": ('kind = "lstm"\nhidden = [24, 16]', "fashion"),
    "cnn1d of sequences": ('kind = "cnn1d"\nhidden = [12, 8]', "sequences"),
    "lstm of sequences": ('kind = "lstm"\nhidden = [12, 8]', "sequences"),
    "lstm of far ones": ('kind = "lstm"\nhidden = [12, 8]', "far sequences"),
    "lstm of a number": ('kind = "lstm"\nhidden = [12, 8]', "sequences number"),
    "mlp of sequences": ('kind = "mlp"\nhidden = [16]', "sequences"),
    "cnn": ('kind = "cnn"', "cifar"),
}


def write_table(path, rows):
    """Three kinds of flower by four columns of very different size."""
    rng = random.Random(1)
    with open(path, "w", encoding="utf8") as file:
        file.write("a,b,c,d,kind\n")
        for _ in range(rows):
            kind = rng.randrange(3)
            values = [rng.gauss(kind, 1), rng.gauss(-1e3 * kind, 1e3), rng.gauss(1e-3, 1e-4), rng.gauss(7, 2)]
            file.write(",".join(f"{v:.7g}" for v in values) + f",{['iris', 'lily', 'rose'][kind]}\n")


def write_mixed(path, rows):
    """Numbers and texts, some of them missing. Returns: numbers and texts of the samples."""
    rng = random.Random(2)
    numbers, texts = [], []
    with open(path, "w", encoding="utf8") as file:
        file.write("id,a,colour,b,zone,kind\n")
        for i in range(rows):
            kind = rng.randrange(3)
            a = None if rng.random() < 0.1 else round(rng.gauss(kind, 1), 4)
            b = round(rng.gauss(-100 * kind, 100), 4)
            colour = rng.choice(["red", "green, dark", "blue", ""])
            zone = str(rng.randrange(3) + kind)
            numbers.append([numpy.nan if a is None else a, b])
            texts.append([colour, zone])
            file.write(f'{i},{"NA" if a is None else a},"{colour}",{b},{zone},{"xyz"[kind]}\n')
    return numpy.array(numbers, dtype=numpy.float32), texts


def write_numbers(path, rows):
    """A number far from 0 by three columns, one of them missing now and then. Returns: the columns."""
    rng = random.Random(3)
    numbers = []
    with open(path, "w", encoding="utf8") as file:
        file.write("a,b,c,price\n")
        for _ in range(rows):
            a, b, c = (round(rng.gauss(0, size), 4) for size in (1, 1e3, 5))
            price = 250 + 30 * a - 0.02 * b + 2 * rng.gauss(0, 1)
            missing = rng.random() < 0.1
            numbers.append([a, numpy.nan if missing else b, c])
            file.write(f'{a},{"NA" if missing else b},{c},{price:.3f}\n')
    return numpy.array(numbers, dtype=numpy.float32)


def write_far(path, rows, number):
    """Seconds within a minute, metres of a map and a code, to tell a kind or a time. Returns: numbers, texts."""
    rng = random.Random(4)
    numbers, texts = [], []
    with open(path, "w", encoding="utf8") as file:
        file.write("time,north,code,answer\n")
        for _ in range(rows):
            kind = rng.randrange(3)
            time = None if rng.random() < 0.1 else round(1.7e9 + 20 * kind + rng.uniform(0, 30), 3)
            north = round(5_800_000 + rng.gauss(100 * kind, 100), 2)
            code = rng.choice(["007", "7", "7.0"])
            numbers.append([numpy.nan if time is None else time, north])
            texts.append([code])
            answer = round(1.7e9 + 3 * rng.gauss(kind, 1), 3) if number else "xyz"[kind]
            file.write(f'{"NA" if time is None else time},{north},{code},{answer}\n')
    return numpy.array(numbers), texts


def write_sequences(path, samples, far, number):
    """Waves of three kinds over 30 steps, beside noise, with gaps; far from 0, or with a number to learn, if
    asked. Returns: the samples."""
    rng = numpy.random.default_rng(6)
    kinds = rng.integers(0, 3, samples)
    turns = (1 + kinds)[:, None] * numpy.arange(30) / 30
    waves = numpy.sin(2 * numpy.pi * (turns + rng.uniform(size=(samples, 1))))
    x = numpy.stack([300 + 40 * waves, rng.normal(size=waves.shape)], axis=2)
    if far:
        x += 1.7e9
    x[rng.uniform(size=x.shape) < 0.05] = numpy.nan
    if not far:
        x = x.astype(numpy.float32)
    numpy.savez(path, x=x, y=30 * (kinds - 1) + rng.normal(size=samples) if number else kinds)
    return x


def write_cifar(directory):
    """Noise in the form of CIFAR-10: what is learnt does not matter here."""
    os.makedirs(directory)
    rng = numpy.random.default_rng(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (100, 3073), dtype=numpy.uint8)
        records[:, 0] %= 10
        records.tofile(os.path.join(directory, name))


def data_of(work, kind):
    """Returns: the lines of [dataset], what predict is given, raw samples [n, ...], their texts."""
    if kind == "mixed":
        path = os.path.join(work, "mixed.csv")
        numbers, texts = write_mixed(path, 2000)
        keys = f'kind = "csv"\npath = "{path}"\nignore = ["id"]\ncategorical = ["zone"]'
        return keys, path, numbers, texts
    if kind == "number":
        path = os.path.join(work, "number.csv")
        numbers = write_numbers(path, 2000)
        return f'kind = "csv"\npath = "{path}"\ntask = "regression"', path, numbers, None
    if kind in ("far", "far number"):
        path = os.path.join(work, kind.replace(" ", "-") + ".csv")
        numbers, texts = write_far(path, 2000, kind == "far number")
        task = '\ntask = "regression"' if kind == "far number" else ""
        return f'kind = "csv"\npath = "{path}"\ncategorical = ["code"]{task}', path, numbers, texts
    if kind in ("sequences", "far sequences", "sequences number"):
        path = os.path.join(work, kind.replace(" ", "-") + ".npz")
        raw = write_sequences(path, 2000, kind == "far sequences", kind == "sequences number")
        task = '\ntask = "regression"' if kind == "sequences number" else ""
        return f'kind = "numpy"\npath = "{path}"{task}', path, raw, None
    if kind == "table":
        path = os.path.join(work, "table.csv")
        write_table(path, 2000)
        with open(path, encoding="utf8") as file:
            rows = [[float(v) for v in row[:4]] for row in list(csv.reader(file))[1:]]
        return f'kind = "csv"\npath = "{path}"', path, numpy.array(rows, dtype=numpy.float32), None
    if kind == "fashion":
        with gzip.open(f"{FASHION}/t10k-images-idx3-ubyte.gz") as file:
            pixels = numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=16)
        raw = pixels.reshape(-1, 1, 28, 28).astype(numpy.float32)
        return 'kind = "fashion-mnist"\nsamples = 2000', FASHION, raw, None
    path = os.path.join(work, "cifar")
    if not os.path.isdir(path):
        write_cifar(path)
    records = numpy.fromfile(os.path.join(path, "test_batch.bin"), dtype=numpy.uint8).reshape(-1, 3073)
    raw = records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32)
    return f'kind = "cifar-10"\npath = "{path}"', path, raw, None


def train(rubato, work, name, model, dataset):
    directory = os.path.join(work, name.replace(" ", "-"))
    os.makedirs(directory)
    with open(os.path.join(directory, "cluster.toml"), "w", encoding="utf8") as file:
        file.write(f"""name = "engines"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
[model]
{model}
[dataset]
{dataset}
[training]
batch = 32
[evaluation]
samples = 100
[stop]
max_steps = 80
""")
    subprocess.run([rubato, "compare", "cluster.toml", "--sync", "bsp", "--save", "--quiet", "--out", "out"],
                   cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(directory, "out", "bsp-1", "model")


def predicted(rubato, model, data, first):
    """Returns: the scores of `rubato predict` [n, classes], or numbers [n, 1]; `first`: their column."""
    out = subprocess.run([rubato, "predict", model + ".safetensors", "--data", data],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return numpy.array([[float(v) for v in row[first:]] for row in list(csv.reader(out.splitlines()))[1:]])


def onnx_job(model, raw, texts, outputs, suffix=""):
    """Writes the samples beside the model. Returns: what run_jobs() does with them."""
    files = model + suffix
    raw.tofile(files + ".input")
    return {"model": model + ".onnx", "input": files + ".input", "type": str(raw.dtype),
            "shape": raw.shape[1:], "out": files + ".result", "outputs": outputs, "texts": texts}


def run_jobs(work, script, jobs):
    """Runs `script`, onnx.mjs or onnx_jobs.py, once, on all jobs."""
    path = os.path.join(work, "jobs.json")
    with open(path, "w", encoding="utf8") as file:
        json.dump(jobs, file)
    ran = subprocess.run([*(["node"] if script.endswith(".mjs") else []), script, work, path],
                         stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"engines: {script} failed\n{ran.stderr}")


def onnx_result(job, name, samples):
    """Returns: an output of a job, [n, classes] or [n, 1]."""
    with open(job["model"], "rb") as file:
        graph = onnx.load_model(file).graph
    kind, = (output.type.tensor_type.elem_type for output in graph.output if output.name == name)
    dtype = numpy.float64 if kind == onnx.TensorProto.DOUBLE else numpy.float32
    return numpy.fromfile(f"{job['out']}.{name}", dtype=dtype).reshape(samples, -1)


def run_onnx(work, script, model, raw, texts, outputs):
    """Returns: these outputs of onnxruntime, each [n, classes] or [n, 1]."""
    job = onnx_job(model, raw, texts, outputs)
    run_jobs(work, script, [job])
    return [onnx_result(job, name, len(raw)) for name in outputs]


def read_safetensors(path):
    """The format is 8 bytes of length, a JSON header, then the tensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(entry["shape"])
    return tensors, metadata


class LastOfLstm(nn.LSTM):
    """Rows of an image are the steps; the answer is the last state."""

    def forward(self, x):  # pylint: disable=arguments-differ
        if x.dim() == 4:
            x = x.permute(0, 2, 1, 3).flatten(2)
        else:
            x = x.unsqueeze(1)
        return super().forward(x)[0][:, -1]


def model_inputs(schema, raw, texts):
    """Returns: what the first layer is given, after the description in train/model/input_schema.hpp."""
    if schema["pixels"]:
        means, scales = torch.tensor(schema["scalings"]).reshape(-1, 2, 1, 1).unbind(1)
        return (torch.from_numpy(raw) - means) * scales
    if raw.ndim == 3:
        means, scales = numpy.array([column["scaling"] for column in schema["columns"]]).T
        fills = [column["fill"] for column in schema["columns"]]
        inputs = (numpy.where(numpy.isnan(raw), fills, raw) - means) * scales
        return torch.from_numpy(inputs.astype(numpy.float32)).unsqueeze(1)
    inputs, number, text = [], 0, 0
    for column in schema["columns"]:
        if "categories" in column:
            values = [row[text] for row in texts]
            text += 1
            inputs += [[float(v == category) for v in values] for category in column["categories"]]
            missing = [float(v == "") for v in values]
        else:
            mean, scale = column["scaling"]
            values = raw[:, number].astype(numpy.float64)
            number += 1
            missing = numpy.isnan(values).astype(numpy.float64)
            inputs.append((numpy.where(missing, column["fill"], values) - mean) * scale)
        if column.get("indicator"):
            inputs.append(missing)
    return torch.tensor(numpy.array(inputs, dtype=numpy.float32).T.copy())


def pair(extent):
    """One number stands for height and width."""
    return extent if isinstance(extent, list) else [extent, extent]


def torch_model(description, probe, tensors):
    """Returns: the same layers in PyTorch, with the tensors by name. `probe`: an input."""
    counts, layers, used = {}, [], set()
    for layer in description["layers"]:
        kind = layer["kind"]
        counts[kind] = counts.get(kind, 0) + 1
        name = f"{kind}{counts[kind]}"
        if kind == "dense":
            if probe.dim() > 2:
                layers.append(nn.Flatten())
                probe = probe.flatten(1)
            module = nn.Linear(probe.shape[1], layer["outputs"])
        elif kind == "conv":
            module = nn.Conv2d(probe.shape[1], layer["channels"], layer["kernel"], layer["stride"], layer["padding"])
        elif kind == "maxpool":
            (top, left), (bottom, right) = pair(layer["padding_begin"]), pair(layer["padding_end"])
            layers.append(nn.ConstantPad2d((left, right, top, bottom), float("-inf")))
            module = nn.MaxPool2d(layer["kernel"], layer["stride"])
            probe = layers[-1](probe)
        elif kind == "lrn":
            size = 2 * layer["radius"] + 1
            module = nn.LocalResponseNorm(size, layer["alpha"] * size, layer["beta"], layer["bias"])
        elif kind == "relu":
            module = nn.ReLU()
        else:
            features = probe.shape[1] * probe.shape[3] if probe.dim() == 4 else probe.shape[1]
            module = LastOfLstm(features, layer["hidden"], batch_first=True)
        for parameter, _ in list(module.named_parameters()):
            used.add(f"{name}.{parameter}")
            getattr(module, parameter).data = tensors[f"{name}.{parameter}"]
        layers.append(module)
        probe = module(probe)
    assert used == set(tensors), used ^ set(tensors)
    return nn.Sequential(*layers).eval()


def run_torch(model, raw, texts):
    """Returns: what the last layer gives, and the schema."""
    tensors, metadata = read_safetensors(model + ".safetensors")
    schema = json.loads(metadata["rubato.input"])
    inputs = model_inputs(schema, raw, texts)
    network = torch_model(json.loads(metadata["rubato.model"]), inputs[:1], tensors)
    with torch.no_grad():
        return network(inputs).numpy(), schema


def errors_of_classes(rubato, work, script, name, path, data, raw, texts):
    """Returns: how far scores and logits are apart."""
    ours = predicted(rubato, path, data, 2)
    scores, logits = run_onnx(work, script, path, raw, texts, ["scores", "logits"])
    theirs, _ = run_torch(path, raw, texts)
    softmax = name != "svm"
    torch_scores = torch.softmax(torch.from_numpy(theirs), 1).numpy() if softmax else theirs
    # Scores of an SVM have no bound: they are compared relative to the largest.
    unit = 1 if softmax else numpy.abs(ours).max()
    return [numpy.abs(scores - ours).max() / unit, numpy.abs(torch_scores - ours).max() / unit,
            numpy.abs(theirs - logits).max() / numpy.abs(logits).max()]


def errors_of_numbers(rubato, work, script, path, data, raw, texts):
    """Returns: how far predictions are apart, relative to their deviation: ours from onnxruntime's, ours
    from PyTorch's, and theirs."""
    ours = predicted(rubato, path, data, 1)
    predictions, = run_onnx(work, script, path, raw, texts, ["prediction"])
    theirs, schema = run_torch(path, raw, texts)
    theirs = theirs.astype(numpy.float64)
    assert schema["task"] == "regression"
    mean, scale = schema["target"]
    unit = ours.std()
    return [numpy.abs(predictions - ours).max() / unit, numpy.abs(theirs / scale + mean - ours).max() / unit,
            numpy.abs(theirs / scale + mean - predictions).max() / unit]


def main():
    rubato, work, script = sys.argv[1:]
    failed = False
    print(f"{'model':18} {'samples':>8}  {'onnx scores':>12} {'torch scores':>13} {'torch logits':>13}")
    for name, (model, kind) in MODELS.items():
        dataset, data, raw, texts = data_of(work, kind)
        path = train(rubato, work, name, model, dataset)
        if kind in ("number", "far number", "sequences number"):
            errors = errors_of_numbers(rubato, work, script, path, data, raw, texts)
        else:
            errors = errors_of_classes(rubato, work, script, name, path, data, raw, texts)
        print(f"{name:18} {len(raw):8}  {errors[0]:12.1e} {errors[1]:13.1e} {errors[2]:13.1e}")
        failed |= not max(errors) <= TOLERANCE
    if failed:
        print("engines: an error is above 1e-5", file=sys.stderr)
        sys.exit(1)
    print("engines: all agree to 1e-5")


if __name__ == "__main__":
    main()
