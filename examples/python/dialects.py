#!/usr/bin/env python3
"""A transformer that reads letter by letter. Each worker speaks a dialect, and hears no other.

    rubato study dialects-study.toml         # bsp, DiLoCo, adsp and tempo in one report
    rubato compare dialects.toml --sync adsp # one of them, on virtual machines
    rubato up dialects.toml --sync adsp      # real processes on this machine
    RUBATO_ALONE=1 python3 dialects.py       # once through one dialect, without a cluster

The texts are made by a small grammar, so nothing is downloaded. Needs rubato and torch in Python.
"""

import logging
import random
from pathlib import Path
from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import rubato

CLUSTER = Path(__file__).with_name("dialects.toml")
LETTERS = "\n abcdefghijklmnopqrstuvwxyz'."
LENGTH = 48  # letters that the model sees
DIALECTS = 4

# --- the language --------------------------------------------------------------------------------

NOUNS = "fisher miller farmer baker weaver mother father daughter brother goose pony hen".split()
THINGS = "bread water butter timber leather barley honey thread cheese pepper silver paper".split()
ADJECTIVES = "old young tall weary clever hungry happy quiet thirsty merry other bitter".split()
VERBS = "carries gathers buys sells weighs finds brings keeps counts hides mends orders".split()
PLACES = "by the river|near the tower|at the market|in the cellar|under the bridge".split("|")

# What each dialect makes of the common language: other sounds, and another order.
SOUNDS: List[List[Tuple[str, str]]] = [
    [],
    [("th", "d"), ("er", "a"), ("w", "v")],
    [("ing", "in'"), ("ea", "ee"), ("h", "'")],
    [("y ", "ie "), ("ou", "oo"), ("tt", "dd"), ("s ", "z ")],
]


def sentence(draw: random.Random, dialect: int) -> str:
    who = f"the {draw.choice(ADJECTIVES)} {draw.choice(NOUNS)}"
    what = f"{draw.choice(VERBS)} the {draw.choice(THINGS)}"
    where = draw.choice(PLACES)
    text = f"{where} {who} {what}" if dialect % 2 else f"{who} {what} {where}"
    for old, new in SOUNDS[dialect]:
        text = text.replace(old, new)
    return text + ".\n"


def sentences(seed: int, dialect: int, count: int) -> Tensor:
    """[count, LENGTH + 1] numbers of letters: pieces of a text."""
    draw = random.Random(f"{seed}/{dialect}")
    text = ""
    while len(text) < count * (LENGTH + 1):
        text += sentence(draw, dialect)
    numbers = torch.tensor([LETTERS.index(letter) for letter in text])
    return numbers[: count * (LENGTH + 1)].reshape(count, LENGTH + 1)


# --- the model -----------------------------------------------------------------------------------


class GPT(nn.Module):
    """0.8 million parameters."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.places = nn.Embedding(LENGTH, width)
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(LETTERS), bias=False)
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        nn.init.normal_(self.letters.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        length = text.shape[1]
        x = self.letters(text) + self.places.weight[:length]
        x = self.blocks(x, self.mask[:length, :length])
        scores: Tensor = self.head(self.norm(x))
        return scores


def loss_of(model: nn.Module, text: Tensor) -> Tensor:
    """The mean over the letters, each of which is to be told from those before it."""
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def measured(model: nn.Module, text: Tensor) -> Tuple[float, float]:
    """The loss, and the share of letters that the model guesses."""
    scores = model(text[:, :-1]).flatten(0, 1)
    letters = text[:, 1:].flatten()
    accuracy = (scores.argmax(1) == letters).float().mean()
    return F.cross_entropy(scores, letters).item(), accuracy.item()


# --- the loop ------------------------------------------------------------------------------------


def train() -> None:
    me = rubato.this(CLUSTER)  # who am I? The name and number in the cluster file
    text = sentences(seed=1, dialect=me.index % DIALECTS, count=2000)
    held_out = torch.cat([sentences(seed=2, dialect=each, count=16) for each in range(DIALECTS)])
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

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
    train()
