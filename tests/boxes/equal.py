#!/usr/bin/env python3
"""Models of Rubato beside scikit-learn's on the same files: offsets up to 1.7e12, linear models,
rare classes, weights of samples. One row of a table for each; docs/testing.md shows it.

Usage: equal.py RUBATO [DIRECTORY [CASE]]   needs Debian's python3-sklearn; two minutes on two cores
Exit code 1 where figures differ by more than 0.5 points, or 0.01 of R^2, F1 (macro), AUC or loss.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score, log_loss, r2_score, recall_score, roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MARGINS = {"accuracy": 0.005, "recall": 0.005, "r2": 0.01, "f1": 0.01, "auc": 0.01, "loss": 0.01}
LINEAR, NETWORK = "[]", "[32]"
TRAINING = {LINEAR: (6000, 2000, 0.5), NETWORK: (4000, 200, 0.01)}  # steps, batch, rate


class Case:
    """Columns with a label and weights, to train on and to test, and how a model learns them."""

    def __init__(self, name, hidden, rng, make, rows=8000, figures=None, balanced=False, weighted=False, boxes=False):
        self.name, self.hidden, self.rows = name, hidden, rows
        self.train, self.test = make(rng, rows), make(rng, rows)
        self.regression = self.train[1].dtype.kind == "f"
        self.figures = figures or (["r2"] if self.regression else ["accuracy"])
        self.balanced, self.weighted, self.boxes = balanced, weighted, boxes

    # --- ours -----------------------------------------------------------------------------------

    def write(self, path, part, rows=slice(None)):
        inputs, labels, weights = part
        names = [f"x{i}" for i in range(inputs.shape[1])]
        with open(path, "w", encoding="utf8") as file:
            file.write(",".join(names + ["w", "label"]) + "\n")
            for row, weight, label in zip(inputs[rows], weights[rows], labels[rows]):
                file.write(",".join(repr(float(v)) for v in [*row, weight]) + f",{label}\n")

    def cluster(self):
        steps, batch, rate = TRAINING[self.hidden]
        batch *= max(1, self.rows // 20000)  # of a rare class a small batch has no sample
        own = [f'data = "box{i}.csv"\n' if self.boxes else "" for i in range(2)]
        return (
            "".join(f'[[workers]]\nname = "w{i}"\nstep_seconds = 0.01\n{own[i]}' for i in range(2))
            + f'[model]\nkind = "mlp"\nhidden = {self.hidden}\n[dataset]\nheld_out_path = "test.csv"\n'
            + ('kind = "csv"\npartition = "local"\n' if self.boxes else 'path = "train.csv"\n')
            + ('weight_column = "w"\n' if self.weighted else 'ignore = ["w"]\n')
            + ('task = "regression"\n' if self.regression else "")
            + ('[training]\nclass_weights = "balanced"\n' if self.balanced else "[training]\n")
            + f'batch = {batch}\noptimizer = "adamw"\nlearning_rate = {rate}\nschedule = "cosine"\n'
            + f"decay_steps = {steps // 2}\n[evaluation]\ninterval_seconds = 5\n"
            + f"[stop]\nmax_steps = {steps}\nmax_seconds = 600\n"
        )

    def ours(self, rubato, directory):
        """Returns: what rubato evaluate says of the model on the test samples."""
        os.makedirs(directory)
        self.write(f"{directory}/train.csv", self.train)
        self.write(f"{directory}/test.csv", self.test)
        if self.boxes:  # as many samples on both: BSP takes the mean of its workers' gradients
            self.write(f"{directory}/box0.csv", self.train, slice(0, None, 2))
            self.write(f"{directory}/box1.csv", self.train, slice(1, None, 2))
        with open(f"{directory}/c.toml", "w", encoding="utf8") as file:
            file.write(self.cluster())

        def run(*arguments):
            done = subprocess.run([rubato, *arguments], cwd=directory, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{self.name}: rubato {arguments[0]}: {done.stderr}")
            return done.stdout

        if self.boxes:
            run("up", "c.toml", "--sync", "bsp", "--out", "out")
            model = "out/model.safetensors"
        else:
            run("compare", "c.toml", "--sync", "bsp", "--save", "--quiet", "--out", "out")
            model = "out/bsp-1/model.safetensors"
        said = json.loads(run("evaluate", model, "--data", "test.csv", "--json"))
        said["recall"] = said.get("balanced_accuracy")
        return said

    # --- scikit-learn's -------------------------------------------------------------------------

    def theirs(self):
        inputs, labels, weights = self.train
        if self.hidden == NETWORK:
            kind = MLPRegressor if self.regression else MLPClassifier
            model = kind(tuple(json.loads(self.hidden)), max_iter=300, random_state=1, learning_rate_init=0.003, alpha=0)
        elif self.regression:
            model = LinearRegression()
        else:
            model = LogisticRegression(penalty=None, max_iter=2000, class_weight="balanced" if self.balanced else None)
        shift, unit = (labels.mean(), labels.std()) if self.regression else (0, 1)
        pipeline = make_pipeline(StandardScaler(), model)
        fit = {f"{pipeline.steps[-1][0]}__sample_weight": weights} if self.weighted else {}
        pipeline.fit(inputs, (labels - shift) / unit if self.regression else labels, **fit)
        inputs, labels, test_weights = self.test
        of_loss = test_weights / weights.mean() if self.weighted else numpy.ones(len(labels))
        if self.regression:
            predicted = pipeline.predict(inputs)
            scaled = (labels - shift) / unit
            return {"r2": r2_score(scaled, predicted), "loss": (of_loss * (predicted - scaled) ** 2).mean()}
        predicted, shares = pipeline.predict(inputs), pipeline.predict_proba(inputs)
        said = {
            "accuracy": (predicted == labels).mean(),
            "recall": recall_score(labels, predicted, average="macro"),
            "f1": f1_score(labels, predicted, average="macro"),
            "loss": log_loss(labels, shares, sample_weight=of_loss, normalize=False) / len(labels),
        }
        if shares.shape[1] == 2:
            said["auc"] = roc_auc_score(labels, shares[:, 1])
        return said


# --- the files ------------------------------------------------------------------------------------


def moved(offset, step, digits):
    """A column around an offset, as a file has it, and what it stands for: of deviation 1."""

    def column(rng, rows):
        plain = rng.normal(size=rows)
        return numpy.round(offset + step * plain, digits), plain

    return column


def classes_of(column, curved):
    def make(rng, rows):
        far, plain = column(rng, rows)
        beside = rng.normal(size=rows)
        rule = plain - beside**2 + 0.7 if curved else plain + beside
        labels = numpy.where(rule + 0.1 * rng.normal(size=rows) > 0, "up", "down")
        return numpy.stack([far, beside], 1), labels, numpy.ones(rows)

    return make


def numbers_of(column, curved, offset=0.0, unit=1.0):
    def make(rng, rows):
        far, plain = column(rng, rows)
        beside = rng.normal(size=rows)
        rule = plain * (beside if curved else 1) + 0.5 * beside + 0.3 * rng.normal(size=rows)
        return numpy.stack([far, beside], 1), offset + unit * rule, numpy.ones(rows)

    return make


def rare(rng, rows):
    """One machine in 1000 is faulty; its load is high, as that of some others."""
    faulty = rng.permutation(rows) < rows // 1000
    load = rng.normal(size=rows) + numpy.where(faulty, 3, 0)
    inputs = numpy.stack([20 + 5 * load, rng.normal(size=rows), 1.7e9 + 30 * rng.random(rows)], 1)
    return inputs, numpy.where(faulty, "fault", "ok"), numpy.ones(rows)


def many(rng, rows):
    inputs = rng.normal(size=(rows, 4)) * [1, 10, 0.1, 5] + [0, 100, 3, -40]
    scores = rng.gumbel(size=(rows, 4)) + 2 * (inputs - [0, 100, 3, -40]) / [1, 10, 0.1, 5]
    return inputs, numpy.array(list("abcd"))[scores.argmax(1)], numpy.ones(rows)


def mixed(regression):
    """Two rules in one file. The samples of one count much."""

    def make(rng, rows):
        inputs = rng.normal(size=(rows, 2))
        heavy = rng.random(rows) < 0.3
        rule = numpy.where(heavy, 2 * inputs[:, 0], 2 * inputs[:, 1]) + 0.8 * rng.normal(size=rows)
        weights = numpy.where(heavy, 5 + 10 * rng.random(rows), rng.integers(0, 2, rows))
        return inputs, rule if regression else numpy.where(rule > 0.5, "b", "a"), weights

    return make


OFFSETS = [
    ("1", moved(1, 1, 6)),
    ("thousands", moved(5000, 3, 4)),
    ("counter", moved(4e7, 40, 0)),
    ("UTM metres", moved(5.4e6, 100, 2)),
    ("Unix seconds, a minute", moved(1.7e9, 15, 3)),
    ("milliseconds, a minute", moved(1.7e12, 15000, 0)),
]


def cases(rng):
    for name, column in OFFSETS:
        yield Case(f"classes, {name}", LINEAR, rng, classes_of(column, False))
        yield Case(f"classes, {name}, network", NETWORK, rng, classes_of(column, True))
        yield Case(f"number, {name}", LINEAR, rng, numbers_of(column, False))
        yield Case(f"number, {name}, network", NETWORK, rng, numbers_of(column, True))
    plain = moved(0, 1, 6)
    yield Case("target 1.7e9 +- 3", LINEAR, rng, numbers_of(plain, False, 1.7e9, 3.0))
    yield Case("target 1.7e9 +- 3, network", NETWORK, rng, numbers_of(plain, True, 1.7e9, 3.0))
    yield Case("linear regression", LINEAR, rng, numbers_of(plain, False), figures=["r2", "loss"])
    yield Case("logistic regression", LINEAR, rng, classes_of(plain, False), figures=["accuracy", "auc", "loss"])
    yield Case("softmax, four classes", LINEAR, rng, many, figures=["accuracy", "f1", "loss"])
    yield Case("1 in 1000, balanced", LINEAR, rng, rare, 200000, ["recall", "f1", "auc"], balanced=True)
    yield Case("1 in 1000, no weights", LINEAR, rng, rare, 200000, ["recall", "f1", "auc"])
    yield Case("1 in 1000, balanced, boxes", LINEAR, rng, rare, 200000, ["recall", "f1", "auc"], balanced=True, boxes=True)
    yield Case("sample weights, classes", LINEAR, rng, mixed(False), figures=["accuracy", "auc", "loss"], weighted=True)
    yield Case("sample weights, number", LINEAR, rng, mixed(True), figures=["r2", "loss"], weighted=True)
    yield Case("sample weights, boxes", LINEAR, rng, mixed(False), figures=["accuracy", "auc", "loss"], weighted=True,
               boxes=True)


def main():
    rubato = os.path.abspath(sys.argv[1])
    work = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    only = sys.argv[3] if len(sys.argv) > 3 else ""  # cases whose names have it
    print(f"{'':42} {'figure':9} {'Rubato':>8} {'scikit-learn':>13}")
    good = True
    for i, case in enumerate(cases(numpy.random.default_rng(1))):
        if only not in case.name:
            continue
        ours, theirs = case.ours(rubato, os.path.join(work, str(i))), case.theirs()
        for figure in case.figures:
            apart = abs(ours[figure] - theirs[figure])
            equal = apart <= MARGINS[figure] * max(1, abs(theirs[figure]) if figure == "loss" else 1)
            good = good and equal
            print(f"{case.name:42} {figure:9} {ours[figure]:8.4f} {theirs[figure]:13.4f}{'' if equal else '  differs'}",
                  flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
