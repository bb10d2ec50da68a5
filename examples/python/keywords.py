#!/usr/bin/env python3
"""Ten spoken words. Each worker hears one voice; the model is judged by voices that none has heard.

    rubato compare keywords.toml              # virtual machines
    rubato up keywords.toml --sync adsp       # real processes on this machine
    RUBATO_ALONE=1 python3 keywords.py        # one voice, without a cluster

The voices are those of the Debian package espeak-ng, so nothing is downloaded and nobody recorded.
That of Debian 13 says a word a little differently each time, so figures vary there.
Needs it, and rubato and torch in Python.
"""

import itertools
import logging
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import rubato

CLUSTER = Path(__file__).with_name("keywords.toml")
WORDS = "yes no up down left right on off stop go".split()
VOICES = ["en+m3", "en-us+f2", "en-gb-scotland+m1", "en-us+m7", "en+f4", "en-029+m2"]
UNHEARD = ["en-us+f5", "en-gb-x-rp+m4", "en+m8"]
RATE = 22050  # samples a second, as espeak-ng makes them
WINDOW, HOP, BANDS, FRAMES = 512, 256, 40, 64  # FRAMES: 0.74 s

# --- sounds --------------------------------------------------------------------------------------


def spoken(word: str, voice: str, speed: int, pitch: int) -> Tensor:
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word]
    wav = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    return torch.frombuffer(bytearray(wav), dtype=torch.int16, offset=44).float() / 2**15


def mel(hertz: Tensor) -> Tensor:
    """Evenly spaced as ears hear."""
    return 1127 * torch.log1p(hertz / 700)


@lru_cache(maxsize=None)
def filters() -> Tensor:
    """[BANDS, WINDOW / 2 + 1]: overlapping triangles from 80 Hz to 8 kHz."""
    low, high = mel(torch.tensor([80.0, 8000.0])).tolist()
    edges = torch.linspace(low, high, BANDS + 2)
    at = mel(torch.arange(WINDOW // 2 + 1) * RATE / WINDOW)
    rise = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


def spectrogram(sound: Tensor) -> Tensor:
    """[1, BANDS, FRAMES], of mean 0 and deviation 1."""
    length = WINDOW + (FRAMES - 1) * HOP
    sound = F.pad(sound, (0, max(0, length - len(sound))))[:length]
    frames = sound.unfold(0, WINDOW, HOP) * torch.hann_window(WINDOW)
    power = torch.fft.rfft(frames).abs() ** 2
    bands = torch.log(filters() @ power.T + 1e-6)
    return ((bands - bands.mean()) / bands.std())[None]


@lru_cache(maxsize=None)
def heard(voice: str) -> Tuple[Tensor, Tensor]:
    """Spectrograms and numbers of the words: said fast and slowly, high and low."""
    ways = list(itertools.product(range(len(WORDS)), (130, 160, 190), (35, 60)))
    sounds = [spectrogram(spoken(WORDS[word], voice, *how)) for word, *how in ways]
    return torch.stack(sounds), torch.tensor([word for word, *_ in ways])


def elsewhere(sounds: Tensor) -> Tensor:
    """The same words a little later, in a noisy place."""
    late = int(torch.randint(0, 12, ()))
    sounds = F.pad(sounds, (late, 0))[..., :FRAMES]
    return sounds + 0.3 * torch.randn(sounds.shape)


# --- the model and the loop ----------------------------------------------------------------------


def net() -> nn.Sequential:
    """Its BatchNorm layers have running statistics, which the cluster averages."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 5 * 8, len(WORDS))),
    )


def measured(model: nn.Module) -> Tuple[float, float]:
    """The loss, and the share of words understood, of voices that no worker hears."""
    scores = torch.cat([model(heard(voice)[0]) for voice in UNHEARD])
    words = torch.cat([heard(voice)[1] for voice in UNHEARD])
    accuracy = (scores.argmax(1) == words).float().mean()
    return F.cross_entropy(scores, words).item(), accuracy.item()


def train() -> None:
    me = rubato.this(CLUSTER)
    sounds, labels = heard(VOICES[me.index % len(VOICES)])
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def evaluate() -> Tuple[float, float]:
        return measured(model)

    with rubato.Worker(CLUSTER, model, optimizer, evaluate=evaluate) as w:
        for x, y in w.batches((sounds, labels)):
            loss = F.cross_entropy(model(elsewhere(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train()
