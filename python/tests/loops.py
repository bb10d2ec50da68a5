"""The model of the clusters here and a loop that moves it, for tests and the scripts they start."""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy

import rubato

FEATURES, HIDDEN, CLASSES = 10, 16, 4
SAMPLES, BATCH = 400, 16


def arrays(seed: int = 0) -> Dict[str, Any]:
    """The mlp of the clusters here."""
    random = numpy.random.default_rng(seed)
    shapes = {
        "w1": (HIDDEN, FEATURES),
        "b1": (HIDDEN,),
        "w2": (CLASSES, HIDDEN),
        "b2": (CLASSES,),
    }
    return {
        name: random.normal(0, 0.3, shape).astype(numpy.float32) for name, shape in shapes.items()
    }


def train(
    worker: rubato.Worker, model: Dict[str, Any], steps: Optional[int] = None, loss: float = 1.0
) -> int:
    """Steps that move every parameter by 0.001, until the run is over or so many are made."""
    made = 0
    while not worker.over and (steps is None or made < steps):
        for array in model.values():
            array += 0.001
        made += 1
        worker.step(loss, BATCH)
    return made
