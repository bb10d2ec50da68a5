#!/usr/bin/env python3
"""Low-rank adapters (LoRA, arXiv 2106.09685): the model of dialects.py stays, its adapters travel.

    python3 lora.py base                # first the common language: base.safetensors, in a minute
    rubato compare lora.toml            # then all dialects, each by a worker
    rubato up lora.toml --sync adsp     # real processes on this machine
    RUBATO_ALONE=1 python3 lora.py      # one dialect, without a cluster

A commit has 28,672 parameters, 115 kB; one of the whole model has 3.2 MB. For real boxes, copy
base.safetensors to each of them: the frozen weights are compared.
"""

import logging
import sys
from pathlib import Path
from typing import Tuple

import torch
import torch.nn.utils.parametrize as parametrize
from dialects import DIALECTS, GPT, measured, loss_of, sentences
from torch import Tensor, nn

import rubato

CLUSTER = Path(__file__).with_name("lora.toml")
BASE = Path("base.safetensors")


class LoRA(nn.Module):
    """Added to a frozen weight: the product of two thin matrices."""

    def __init__(self, weight: Tensor, rank: int = 4) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5)
        self.b = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.b @ self.a


def adapted(model: GPT) -> GPT:
    """The model with all its weights frozen, and adapters that are trained."""
    model.requires_grad_(False)
    for block in model.blocks.layers:
        for layer, name in (
            (block.linear1, "weight"),
            (block.linear2, "weight"),
            (block.self_attn, "in_proj_weight"),
        ):
            parametrize.register_parametrization(layer, name, LoRA(getattr(layer, name)))
    return model


def make_base(steps: int = 400) -> None:
    """Trains the whole model on the dialect that has no sounds of its own."""
    torch.manual_seed(1)
    text = sentences(seed=3, dialect=0, count=2000)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        loss = loss_of(model, text[torch.randint(len(text), (8,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    rubato.save(BASE, model)
    print(f"{BASE}: {sum(each.numel() for each in model.parameters()):,} parameters")


def train() -> None:
    me = rubato.this(CLUSTER)
    text = sentences(seed=1, dialect=me.index % DIALECTS, count=2000)
    held_out = torch.cat([sentences(seed=2, dialect=each, count=16) for each in range(DIALECTS)])
    model = GPT()
    rubato.load(BASE, model)
    adapted(model)
    adapters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=3e-3)

    def evaluate() -> Tuple[float, float]:
        return measured(model, held_out)

    with rubato.Worker(CLUSTER, model, optimizer, evaluate=evaluate, held_out=len(held_out)) as w:
        for pieces in w.batches(text):
            loss = loss_of(model, pieces)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(pieces))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if sys.argv[1:] == ["base"]:
        make_base()
    else:
        train()
