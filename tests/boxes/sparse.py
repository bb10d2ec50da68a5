#!/usr/bin/env python3
"""Sparse data on two real boxes beside scikit-learn on all rows: 20,000 samples of 100,000 columns,
about 25 values each, as LIBSVM files. Prints accuracy and the memory of the largest process.

Usage: sparse.py RUBATO [DIRECTORY]   needs Debian's python3-sklearn; five minutes on two cores
Exit code 1 where an accuracy is more than 0.5 points below scikit-learn's, or a process had 1 GiB.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy
import scipy.sparse
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

COLUMNS, VALUES, ROWS = 100_000, 26, 10_000  # rows of each box

MODELS = {  # name: keys of [model], of [training], steps of both boxes together
    "logistic regression": ('kind = "mlp"\nhidden = []', "learning_rate = 2\nweight_decay = 1e-4", 12_000),
    "svm": ('kind = "svm"', "learning_rate = 0.5\nweight_decay = 5e-4", 12_000),
    "mlp of 32": ('kind = "mlp"\nhidden = [32]', "learning_rate = 0.5\nweight_decay = 1e-4", 4_000),
}


def write(path, rows, seed, popular, effects):
    """Columns as words: few are frequent. The class follows from a number that each of them adds."""
    rng = numpy.random.default_rng(seed)
    with open(path, "w", encoding="utf8") as file:
        for _ in range(rows):
            chosen = numpy.unique(rng.choice(COLUMNS, size=VALUES, p=popular))
            values = rng.exponential(size=len(chosen))
            label = 1 if (effects[chosen] * values).sum() + 0.5 * rng.normal() > 0 else -1
            file.write(f"{label} " + " ".join(f"{c + 1}:{v:.4f}" for c, v in zip(chosen, values)) + "\n")


def cluster(model, training, steps):
    boxes = "".join(f'[[workers]]\nname = "{b}"\nstep_seconds = 1e-6\ndata = "{b}.svm"\n' for b in "ab")
    return (
        f"{boxes}[model]\n{model}\n[dataset]\nkind = \"libsvm\"\npartition = \"local\"\nheld_out_path = \"test.svm\"\n"
        f"[training]\nbatch = 64\n{training}\nschedule = \"cosine\"\ndecay_steps = {steps // 2}\n"
        f"[evaluation]\ninterval_seconds = 20\n[stop]\nmax_steps = {steps}\n"
    )


def main():
    rubato = os.path.abspath(sys.argv[1])
    work = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    os.chdir(work)
    popular = 1 / numpy.arange(1, COLUMNS + 1) ** 0.9
    popular /= popular.sum()
    effects = numpy.random.default_rng(1).normal(size=COLUMNS)
    for name, rows, seed in (("a", ROWS, 2), ("b", ROWS, 3), ("test", ROWS // 2, 4)):
        write(f"{name}.svm", rows, seed, popular, effects)

    boxes = [load_svmlight_file(f"{name}.svm", n_features=COLUMNS) for name in "ab"]
    inputs, labels = scipy.sparse.vstack([x for x, _ in boxes]), numpy.concatenate([y for _, y in boxes])
    test, truth = load_svmlight_file("test.svm", n_features=COLUMNS)
    theirs = {
        "logistic regression": LogisticRegression(max_iter=2000).fit(inputs, labels).score(test, truth),
        "svm": LinearSVC(loss="hinge", C=0.1, max_iter=20000).fit(inputs, labels).score(test, truth),
    }
    # scikit-learn's MLPClassifier takes ten minutes for a network, so that row has no judge.

    good = True
    print(f"{'':22} {'Rubato':>8} {'scikit-learn':>13} {'memory':>9}")
    for i, (name, (model, training, steps)) in enumerate(MODELS.items()):
        with open("c.toml", "w", encoding="utf8") as file:
            file.write(cluster(model, training, steps))
        for command in (["up", "c.toml", "--sync", "bsp", "--out", f"out{i}"],
                        ["evaluate", f"out{i}/model.safetensors", "--data", "test.svm", "--json"]):
            done = subprocess.run([rubato, *command], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{name}: rubato {command[0]}: {done.stderr}")
        ours = json.loads(done.stdout)["accuracy"]
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        good = good and ours > theirs.get(name, 0) - 0.005 and memory < 1024
        beside = f"{theirs[name]:.4f}" if name in theirs else "-"
        print(f"{name:22} {ours:8.4f} {beside:>13} {memory:5.0f} MiB", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
