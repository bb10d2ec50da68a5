#!/usr/bin/python3
"""Compares `rubato predict` with onnxruntime and PyTorch on every kind of model.

Usage: check.py RUBATO WORK ONNX_MJS   WORK: a directory with node_modules/onnxruntime-web.
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
import torch
from torch import nn

FASHION = "/usr/share/datasets/fashion-mnist"
TOLERANCE = 1e-5

MODELS = {
    "mlp": ('kind = "mlp"\nhidden = [32, 16]', "table"),
    "svm": ('kind = "svm"', "table"),
    "mlp of images": ('kind = "mlp"\nhidden = [32]', "fashion"),
    "lenet": ('kind = "lenet"', "fashion"),
    "lstm": ('kind = "lstm"\nhidden = [24, 16]', "fashion"),
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


def write_cifar(directory):
    """Noise in the form of CIFAR-10: what is learnt does not matter here."""
    os.makedirs(directory)
    rng = numpy.random.default_rng(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (100, 3073), dtype=numpy.uint8)
        records[:, 0] %= 10
        records.tofile(os.path.join(directory, name))


def data_of(work, kind):
    """Returns: the lines of [dataset], what predict is given, raw samples [n, ...]."""
    if kind == "table":
        path = os.path.join(work, "table.csv")
        write_table(path, 2000)
        with open(path, encoding="utf8") as file:
            rows = [[float(v) for v in row[:4]] for row in list(csv.reader(file))[1:]]
        return f'kind = "csv"\npath = "{path}"', path, numpy.array(rows, dtype=numpy.float32)
    if kind == "fashion":
        with gzip.open(f"{FASHION}/t10k-images-idx3-ubyte.gz") as file:
            pixels = numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=16)
        return 'kind = "fashion-mnist"\nsamples = 2000', FASHION, pixels.reshape(-1, 1, 28, 28).astype(numpy.float32)
    path = os.path.join(work, "cifar")
    if not os.path.isdir(path):
        write_cifar(path)
    records = numpy.fromfile(os.path.join(path, "test_batch.bin"), dtype=numpy.uint8).reshape(-1, 3073)
    return f'kind = "cifar-10"\npath = "{path}"', path, records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32)


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


def predicted(rubato, model, data):
    """Returns: the scores of `rubato predict` [n, classes]."""
    out = subprocess.run([rubato, "predict", model + ".safetensors", "--data", data],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return numpy.array([[float(v) for v in row[2:]] for row in list(csv.reader(out.splitlines()))[1:]])


def run_onnx(work, script, model, raw):
    """Returns: scores and logits of onnxruntime [n, classes]."""
    raw.tofile(model + ".input")
    shape = ",".join(str(n) for n in raw.shape[1:])
    subprocess.run(["node", script, work, model + ".onnx", model + ".input", shape, model + ".result"], check=True)
    return [numpy.fromfile(f"{model}.result.{name}", dtype=numpy.float32).reshape(len(raw), -1)
            for name in ("scores", "logits")]


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


def torch_model(description, input_schema, tensors):
    """Returns: the same layers in PyTorch, with the tensors by name."""
    schema = json.loads(input_schema)
    means, scales = torch.tensor(schema["means"]), torch.tensor(schema["scales"])
    if schema["pixels"]:
        means, scales = means.reshape(-1, 1, 1), scales.reshape(-1, 1, 1)
    counts, layers, used = {}, [], set()
    shape = [1] + description["input"] if schema["pixels"] else [1, len(schema["means"])]
    probe = torch.zeros(shape)
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
            begin, end = layer["padding_begin"], layer["padding_end"]
            layers.append(nn.ConstantPad2d((begin, end, begin, end), float("-inf")))
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
    network = nn.Sequential(*layers).eval()
    return lambda raw: network((raw - means) * scales)


def run_torch(model, raw):
    tensors, metadata = read_safetensors(model + ".safetensors")
    network = torch_model(json.loads(metadata["rubato.model"]), metadata["rubato.input"], tensors)
    with torch.no_grad():
        return network(torch.from_numpy(raw)).numpy()


def main():
    rubato, work, script = sys.argv[1:]
    failed = False
    print(f"{'model':15} {'samples':>8}  {'onnx scores':>12} {'torch scores':>13} {'torch logits':>13}")
    for name, (model, kind) in MODELS.items():
        dataset, data, raw = data_of(work, kind)
        path = train(rubato, work, name, model, dataset)
        ours = predicted(rubato, path, data)
        scores, logits = run_onnx(work, script, path, raw)
        theirs = run_torch(path, raw)
        softmax = name != "svm"
        torch_scores = torch.softmax(torch.from_numpy(theirs), 1).numpy() if softmax else theirs
        # Scores of an SVM have no bound: they are compared relative to the largest.
        unit = 1 if softmax else numpy.abs(ours).max()
        errors = [numpy.abs(scores - ours).max() / unit, numpy.abs(torch_scores - ours).max() / unit,
                  numpy.abs(theirs - logits).max() / numpy.abs(logits).max()]
        print(f"{name:15} {len(raw):8}  {errors[0]:12.1e} {errors[1]:13.1e} {errors[2]:13.1e}")
        failed |= not max(errors) <= TOLERANCE
    if failed:
        print("engines: an error is above 1e-5", file=sys.stderr)
        sys.exit(1)
    print("engines: all agree to 1e-5")


main()
