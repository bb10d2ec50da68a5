#!/usr/bin/env python3
"""A training loop of PyTorch as the workers of a cluster: a network of 784-64-10 on Fashion-MNIST.

    rubato compare mlp.toml             # virtual workers run this loop; the best sync model
    rubato up mlp.toml --sync adsp      # real processes on this machine
    RUBATO_ALONE=1 python3 mlp.py       # once through the data, without a cluster

Needs the Debian package dataset-fashion-mnist, and rubato and torch in Python.
"""

import gzip
import logging
from pathlib import Path
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

import rubato

DATA = Path("/usr/share/datasets/fashion-mnist")
CLUSTER = Path(__file__).with_name("mlp.toml")


def read(name: str, header: int) -> torch.Tensor:
    content = gzip.decompress((DATA / name).read_bytes())
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header)


def read_images(name: str) -> torch.Tensor:
    return read(name, 16).reshape(-1, 784).float() / 255


# Read once; virtual workers share it.
images = read_images("train-images-idx3-ubyte.gz")
labels = read("train-labels-idx1-ubyte.gz", 8).long()
test_images = read_images("t10k-images-idx3-ubyte.gz")
test_labels = read("t10k-labels-idx1-ubyte.gz", 8).long()


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def measured(model: nn.Module) -> Tuple[float, float]:
    """The loss and the accuracy on images that nobody trains on."""
    scores = model(test_images)
    accuracy = (scores.argmax(1) == test_labels).float().mean()
    return F.cross_entropy(scores, test_labels).item(), accuracy.item()


def train() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def evaluate() -> Tuple[float, float]:
        return measured(model)

    with rubato.Worker(
        CLUSTER, model, optimizer, evaluate=evaluate, held_out=len(test_labels)
    ) as w:
        for x, y in w.batches((images, labels), 32):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train()
