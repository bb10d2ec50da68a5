"""The accuracy of Rubato's models beside scikit-learn's, which sees all boxes' rows at once.

Usage: compare.py DIRECTORY SYNC...   the directory has hall-*.csv, new.csv and SYNC.json
"""
import csv
import glob
import json
import sys

import numpy
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TEXTS = ["machine", "shift"]
NUMBERS = ["temperature", "vibration", "load"]
MARGIN = 0.005  # half a point


def read(paths):
    """Texts, numbers with NaN where one is missing, and labels."""
    rows = [row for path in paths for row in csv.DictReader(open(path, encoding="utf-8"))]
    texts = [[row[name] for name in TEXTS] for row in rows]
    numbers = [[float(row[name] or "nan") for name in NUMBERS] for row in rows]
    columns = numpy.array([t + n for t, n in zip(texts, numbers)], dtype=object)
    return columns, numpy.array([row["state"] for row in rows])


def accuracy(classifier, train, test):
    scaled = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    inputs = ColumnTransformer(
        [
            ("texts", OneHotEncoder(handle_unknown="ignore"), list(range(len(TEXTS)))),
            ("numbers", scaled, list(range(len(TEXTS), len(TEXTS) + len(NUMBERS)))),
        ]
    )
    model = make_pipeline(inputs, classifier)
    model.fit(*train)
    return model.score(*test)


def main():
    place, syncs = sys.argv[1], sys.argv[2:]
    train = read(sorted(glob.glob(f"{place}/hall-*.csv")))
    test = read([f"{place}/new.csv"])
    network = MLPClassifier(hidden_layer_sizes=(64,), max_iter=300, early_stopping=True, random_state=1)
    peers = {
        "scikit-learn MLPClassifier, all rows": accuracy(network, train, test),
        "scikit-learn LogisticRegression, all rows": accuracy(
            LogisticRegression(max_iter=1000), train, test
        ),
    }
    ours = {
        f"rubato {sync}, each row on its box": json.load(open(f"{place}/{sync}.json"))["accuracy"]
        for sync in syncs
    }
    for name, value in {**peers, **ours}.items():
        print(f"{name:44} {100 * value:6.2f} %")
    best = max(peers.values())
    missed = [name for name, value in ours.items() if value < best - MARGIN]
    for name in missed:
        print(f"{name}: more than {100 * MARGIN:g} points below {100 * best:.2f} %", file=sys.stderr)
    return 1 if missed else 0


sys.exit(main())
