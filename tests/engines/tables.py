#!/usr/bin/python3
"""Shows that `rubato predict`, `rubato evaluate` and the model file give the same for every table.

Usage: tables.py RUBATO WORK SCRIPT [TABLES]   WORK, SCRIPT: as of check.py.
First a list of cases: what a value counts as that training has not seen, by the rules of
docs/trained-models.md, written here once more, in PyTorch. Then TABLES random ones (60), with every
kind of column, gap and offset. OpenCV runs those of numbers near 0.
"""
import concurrent.futures
import csv
import json
import math
import os
import random
import subprocess
import sys

import cv2
import numpy
import onnx
import torch

import check

TOLERANCE = 1e-5
MARK = "none given"  # stated by dataset.missing when a model is trained; nobody repeats it
MISSING = ["", "?", "NA", "NaN", "nan", MARK]
MODELS = ['kind = "mlp"\nhidden = [8]', 'kind = "mlp"\nhidden = [12, 6]', 'kind = "svm"']


class Column:
    """One column: its texts in the file to train on, and in the one to predict."""

    def __init__(self, name, texts, train, new):
        self.name, self.texts, self.train, self.new = name, texts, train, new

    def value(self, cell):
        """What a program of others reads: a text, or a number, NaN where there is none."""
        if self.texts:
            return cell
        return math.nan if cell in MISSING else float(cell)


class Table:
    """Columns, what each sample is, and how a model of them is trained."""

    def __init__(self, columns, train, new, model, regression):
        self.columns, self.train, self.new = columns, train, new
        self.model, self.regression = model, regression
        self.header, self.kind = True, "csv"
        self.directory = self.path = self.job = None
        self.ties = 0  # samples whose class the last digits of two scores decide

    def numbers(self):
        return [c for c in self.columns if not c.texts]

    def categorical(self):
        return [c for c in self.columns if c.texts]

    def write(self, directory, rng):
        """Writes train and new, whose columns are in another order if they have names."""
        os.makedirs(directory)
        self.directory = directory
        self.path = os.path.join(directory, "out", "bsp-1", "model")
        label = Column("answer", not self.regression, self.train, self.new)
        self.write_data("train", [(c.name, c.train) for c in self.columns + [label]])
        new = [(c.name, c.new) for c in self.columns + [label]]
        if self.header:
            new.append(("beside", ["x, y"] * len(self.new)))
            rng.shuffle(new)
        self.write_data("new", new)
        texts = json.dumps([c.name if self.header else str(self.columns.index(c)) for c in self.categorical()])
        with open(os.path.join(directory, "cluster.toml"), "w", encoding="utf8") as file:
            file.write(f"""[[workers]]
name = "w"
count = 1
step_seconds = 0.1
[model]
{self.model}
[dataset]
path = "{self.data('train')}"
held_out_path = "{self.data('train')}"
task = "{'regression' if self.regression else 'classification'}"
""")
            if self.kind == "csv":
                file.write(f"header = {str(self.header).lower()}\ncategorical = {texts}\nmissing = [\"{MARK}\"]\n")
            file.write("[training]\nbatch = 16\n[evaluation]\nsamples = 10\n[stop]\nmax_steps = 40\n")

    def data(self, name):
        return os.path.join(self.directory, f"{name}.{self.kind}")

    def write_data(self, name, columns):
        rows = zip(*(cells for _, cells in columns))
        if self.kind == "npy":
            return numpy.save(self.data(name), numpy.array(
                [[math.nan if v in MISSING else float(v) for v in row] for row in rows]))
        with open(self.data(name), "w", encoding="utf8", newline="") as file:
            if self.kind == "libsvm":
                for *values, answer in rows:
                    pairs = [f"{i + 1}:{v}" for i, v in enumerate(values)]
                    file.write(f"{answer} {' '.join(pairs)}\n")
                return None
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            if self.header:
                writer.writerow([name for name, _ in columns])
            writer.writerows(rows)
        return None

    def raw(self):
        """Returns: what the graph's inputs take, of the new samples: numbers, texts or None."""
        values = [[c.value(cell) for cell in c.new] for c in self.columns]
        numbers = [v for v, c in zip(values, self.columns) if not c.texts]
        texts = [list(row) for row in zip(*(v for v, c in zip(values, self.columns) if c.texts))]
        with open(self.path + ".onnx", "rb") as file:
            inputs = {i.name: i.type.tensor_type.elem_type for i in onnx.load_model(file).graph.input}
        dtype = numpy.float64 if inputs.get("input") == onnx.TensorProto.DOUBLE else numpy.float32
        with numpy.errstate(over="ignore"):
            array = numpy.array(numbers, dtype=dtype).reshape(len(numbers), len(self.new)).T
        return numpy.ascontiguousarray(array), texts or None

    def run(self, rubato):
        """Trains, predicts and evaluates. Returns: self, with what came of it."""
        self.command([rubato, "compare", "cluster.toml", "--sync", "bsp", "--save", "--quiet", "--out", "out"])
        model = [self.path + ".safetensors", "--data", self.data("new")]
        self.predicted = list(csv.reader(self.command([rubato, "predict", *model]).splitlines()))
        self.evaluated = json.loads(self.command([rubato, "evaluate", *model, "--json"]))
        raw, texts = self.raw()
        self.job = check.onnx_job(self.path, raw, texts, ["prediction"] if self.regression else ["scores", "logits"])
        return self

    def command(self, arguments):
        """Returns: what it printed."""
        run = subprocess.run(arguments, cwd=self.directory, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(f"{self.directory}: {arguments[1]}: {run.stderr}")
        return run.stdout

    def opencv(self):
        """Returns: the scores or predictions of OpenCV, None of a graph that it cannot run."""
        raw, texts = self.raw()
        output = self.job["outputs"][0]
        if texts or raw.dtype != numpy.float32 or check.onnx_result(self.job, output, len(raw)).dtype != numpy.float32:
            return None
        net = cv2.dnn.readNetFromONNX(self.path + ".onnx")
        net.setInput(raw, "input")
        return net.forward(output)

    def reach(self):
        """Returns: of each new sample, how many deviations its farthest number lies from the mean of training, 1
        at least [n, 1]. Floats keep seven digits of the largest term of a sum, whatever it adds up to."""
        _, metadata = check.read_safetensors(self.path + ".safetensors")
        numbers = [c for c in json.loads(metadata["rubato.input"])["columns"] if "categories" not in c]
        far = numpy.ones((len(self.new), 1))
        for column, values in zip(numbers, self.raw()[0].T.astype(numpy.float64)):
            mean, scale = column["scaling"]
            scaled = numpy.abs((values - mean) * scale)
            far[:, 0] = numpy.maximum(far[:, 0], numpy.where(numpy.isfinite(scaled), scaled, 1))
        return far

    def error(self, scores, ours):
        """How far scores are apart. Those without a bound are compared relative to their size."""
        unit = 1 if "svm" not in self.model and not self.regression else numpy.abs(ours).max(1, keepdims=True)
        if self.regression:
            targets = numpy.array([float(v) for v in self.train])
            ours, scores = ours - targets.mean(), scores - targets.mean()
            unit = numpy.maximum(targets.std() * self.reach(), numpy.abs(ours))
        return float(numpy.max(numpy.abs(scores - ours) / numpy.maximum(unit, 1e-300)))

    def scores(self):
        """Returns: what predict gave, [n, classes] or [n, 1]."""
        return numpy.array([[float(v) for v in row[1 if self.regression else 2:]] for row in self.predicted[1:]])

    def compare(self):
        """Returns: how far onnxruntime and OpenCV are from predict, and what else differs."""
        ours = self.scores()
        scores = check.onnx_result(self.job, self.job["outputs"][0], len(self.new))
        opencv = self.opencv()
        errors = [self.error(scores, ours), 0 if opencv is None else self.error(opencv, ours)]
        wrong = []
        if self.regression:
            targets = numpy.array([float(v) for v in self.new])
            r2 = 1 - ((scores[:, 0] - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
            if abs(r2 - self.evaluated["r2"]) > TOLERANCE * (1 + abs(r2)):
                wrong.append(f"R^2 {self.evaluated['r2']}, of onnxruntime {r2}")
        else:
            names = self.predicted[0][2:]
            classes = [row[1] for row in self.predicted[1:]]
            for row, (given, best) in enumerate(zip(classes, scores.argmax(1))):
                # Either class is right if two scores differ in their last digits alone.
                if scores[row, best] - scores[row, names.index(given)] > TOLERANCE * max(1, abs(scores[row, best])):
                    wrong.append(f"sample {row} is {given}, by onnxruntime {names[best]}")
                self.ties += given != names[best]
            counts = [[sum(a == real and b == given for a, b in zip(self.new, classes)) for given in names]
                      for real in names]
            if counts != self.evaluated["confusion"]:
                wrong.append("the confusion of evaluate differs")
        return errors, wrong


# --- the cases --------------------------------------------------------------------------------

def case_columns(texts):
    """Returns: columns of every kind, with 90 values to train on."""
    rng = random.Random(5)
    rows = 90

    def gaps(cells):
        return [("" if i % 9 == 4 else cell) for i, cell in enumerate(cells)]

    near = [repr(round(rng.gauss(3, 2), 3)) for _ in range(rows)]
    far = [repr(round(1.7e9 + rng.gauss(0, 20), 3)) for _ in range(rows)]
    columns = {"near": near, "near gaps": gaps(near), "constant": ["7.3"] * rows, "none": [""] * rows}
    if texts:
        columns |= {"far": far, "far gaps": gaps(far), "constant far": ["1700000000.25"] * rows,
                    "constant gaps": gaps(["0.1"] * rows),
                    "small": [repr(rng.gauss(0, 1) * 1e-200) for _ in range(rows)],
                    "texts": [rng.choice(["007", "7", "é, ü"]) for _ in range(rows)],
                    "texts gaps": gaps([rng.choice(["red", "blue"]) for _ in range(rows)]),
                    "one text": ["same"] * rows}
    return [Column(name, "text" in name, cells, []) for name, cells in columns.items()]


SPECIAL = MISSING + ["0", "3.25", "-1000", "1e20", "-1e29"]
SPECIAL_TEXTS = MISSING + ["red", "same", "7", "7.0", "green", " red", "na"]


def rule(column, cell):
    """The model's inputs for a cell, by the rules of docs/trained-models.md."""
    there = [v for v in column.train if v not in MISSING]
    missing = float(cell in MISSING)
    if column.texts:
        inputs = [float(cell == word) for word in sorted(set(there), key=lambda word: word.encode())]
    else:
        values = numpy.array([float(v) for v in there] or [0])
        scale = 1 / values.std() if values.std() > 2e-15 * abs(values.mean()) else 1
        mean = values.mean() if there else 0
        inputs = [0.0 if missing else (float(cell) - mean) * scale]
    return inputs + ([missing] if len(there) < len(column.train) else [])


def train_cases(rubato, work, model, texts, regression):
    """Returns: a table that has been predicted, and its cases: column and cell."""
    columns = case_columns(texts)
    rng = random.Random(6)
    ordinary = {c.name: next((v for v in c.train if v), "") for c in columns}
    cases = [(c, cell) for c in columns for cell in (SPECIAL_TEXTS if c.texts else SPECIAL)
             if c.name != "small" or cell in MISSING + ["0"]]
    for column in columns:
        column.new = [cell if of is column else ordinary[column.name] for of, cell in cases]
    answers = [repr(100 + 3 * rng.gauss(0, 1)) if regression else rng.choice("xyz") for _ in range(90)]
    table = Table(columns, answers, (answers * 9)[:len(cases)], model, regression)
    name = f"cases-{model.split(chr(34))[1]}-{'texts' if texts else 'numbers'}{'-number' if regression else ''}"
    table.write(os.path.join(work, name), rng)
    return table.run(rubato), cases


def infinite_job(table, cases):
    """Returns: a job in which missing numbers are infinite instead."""
    raw, texts = table.raw()
    for row, (column, cell) in enumerate(cases):
        if not column.texts and cell in MISSING:
            raw[row, table.numbers().index(column)] = math.inf if row % 2 else -math.inf
    return check.onnx_job(table.path, raw, texts, table.job["outputs"], ".infinite")


def by_the_rules(table):
    """Returns: what PyTorch gives for the inputs that the rules say."""
    tensors, metadata = check.read_safetensors(table.path + ".safetensors")
    inputs = torch.tensor([[x for c in table.columns for x in rule(c, c.new[i])] for i in range(len(table.new))],
                          dtype=torch.float32)
    network = check.torch_model(json.loads(metadata["rubato.model"]), inputs[:1], tensors)
    with torch.no_grad():
        outputs = network(inputs)
    if table.regression:
        mean, scale = json.loads(metadata["rubato.input"])["target"]
        return (outputs.double() / scale + mean).numpy()
    return (outputs if "svm" in table.model else torch.softmax(outputs, 1)).numpy()


def refusals(rubato, table):
    """Returns: columns in which an infinite number is not refused with line and column."""
    accepted = []
    for column in table.numbers():
        path = os.path.join(table.directory, "infinite.csv")
        with open(path, "w", encoding="utf8", newline="") as file:
            csv.writer(file).writerows([[c.name for c in table.columns],
                                        ["-inf" if c is column else c.new[0] for c in table.columns]])
        run = subprocess.run([rubato, "predict", table.path + ".safetensors", "--data", path],
                             capture_output=True, text=True, check=False)
        if run.returncode != 2 or run.stdout or f'infinite.csv:2: column "{column.name}": "-inf"' not in run.stderr:
            accepted.append(f"-inf in {column.name} is not refused: {run.stderr.strip()}")
    return accepted


def check_cases(rubato, work, script):
    """Returns: whether each kind of model does with each case what the rules say."""
    runs = [train_cases(rubato, work, model, texts, regression)
            for model in MODELS[1:] for texts in (False, True) for regression in (False, True)
            if not (regression and "svm" in model)]
    infinite = [infinite_job(table, cases) for table, cases in runs]
    check.run_jobs(work, script, [table.job for table, _ in runs] + infinite)
    print(f"{'model':24} {'cases':>5}  {'onnxruntime':>12} {'OpenCV':>9} {'by the rules':>13}")
    good = True
    for (table, cases), job in zip(runs, infinite):
        errors, wrong = table.compare()
        errors.append(table.error(by_the_rules(table), table.scores()))
        wrong += refusals(rubato, table)
        output = job["outputs"][0]
        if not numpy.array_equal(check.onnx_result(table.job, output, len(cases)),
                                 check.onnx_result(job, output, len(cases))):
            wrong.append("infinity is not as missing in onnxruntime")
        name = os.path.basename(table.directory)
        print(f"{name:24} {len(cases):5}  {errors[0]:12.1e} {errors[1]:9.1e} {errors[2]:13.1e}  {'; '.join(wrong)}")
        good = good and max(errors) <= TOLERANCE and not wrong
    return good


# --- random tables ----------------------------------------------------------------------------

WORDS = ["red", "007", "7", "1.0", "1", "1E5", "é, \"quoted\"", " blanks ", "2024-01-01", "-", "yes", "12345678901234567890"]


def random_numbers(rng, rows, new_rows):
    kind = rng.choice(["gauss", "gauss", "gauss", "count", "constant", "none", "flag"])
    offset = rng.choice([0, rng.choice([-1, 1]) * 10 ** rng.uniform(0, 9.23)])
    deviation = 10 ** rng.uniform(-3, 3) * max(1.0, abs(offset) * 1e-9)
    constant = repr(round(offset, 3))

    def cell(beyond):
        if kind == "none" and not beyond:
            return ""
        if kind == "constant" and not beyond:
            return constant
        if kind == "count":
            return str(int(offset) + rng.randrange(50))
        if kind == "flag":
            return str(rng.randrange(2))
        if kind in ("none", "constant"):
            return repr((0 if kind == "none" else offset) + rng.gauss(0, 2))
        value = offset + deviation * rng.gauss(0, 5 if beyond else 1)
        return repr(1e20 * deviation) if beyond and rng.random() < 0.01 else repr(value)

    share, later = rng.choice([0, 0, 0.1, 0.7]), rng.choice([0, 0.1, 0.5])
    train = [rng.choice(MISSING) if rng.random() < share else cell(False) for _ in range(rows)]
    new = [rng.choice(MISSING) if rng.random() < later else cell(rng.random() < 0.1) for _ in range(new_rows)]
    return train, new


def random_texts(rng, rows, new_rows):
    words = rng.sample(WORDS, rng.randrange(1, 6))
    share, later = rng.choice([0, 0.1, 0.7]), rng.choice([0, 0.1, 0.5])
    train = [rng.choice(MISSING) if rng.random() < share else rng.choice(words) for _ in range(rows)]
    if all(cell in MISSING for cell in train):
        train[0] = words[0]
    new = [rng.choice(MISSING) if rng.random() < later else rng.choice(words + WORDS[:2]) for _ in range(new_rows)]
    return train, new


def random_table(rng):
    rows, new_rows = rng.randrange(20, 80), 40
    columns = []
    text_share = rng.choice([0, 0, 0.4, 1])
    for i in range(rng.randrange(1, 9)):
        texts = rng.random() < text_share
        train, new = (random_texts if texts else random_numbers)(rng, rows, new_rows)
        columns.append(Column(rng.choice([f"c{i}", str(20 + i), f"größe, {i}"]), texts, train, new))
    if rng.random() < 0.3:
        offset, deviation = rng.choice([0, 1, 250, 1.7e9]), rng.choice([0.5, 3, 40])
        answers = [repr(offset + deviation * rng.gauss(0, 1)) for _ in range(rows + new_rows)]
        table = Table(columns, answers[:rows], answers[rows:], rng.choice([m for m in MODELS if "svm" not in m]), True)
    else:
        classes = rng.sample(WORDS, rng.randrange(2, 6))
        answers = classes + [rng.choice(classes) for _ in range(rows + new_rows - len(classes))]
        table = Table(columns, answers[:rows], answers[rows:], rng.choice(MODELS), False)
    table.header = rng.random() < 0.7
    if not text_share and (table.regression or rng.random() < 0.5):
        table.kind = rng.choice(["csv", "libsvm", "npy"])
        if table.kind != "csv" and not table.regression:  # classes are numbers there
            numbers = {answer: str(3 * i - 2) for i, answer in enumerate(sorted(set(answers)))}
            table.train, table.new = ([numbers[a] for a in of] for of in (table.train, table.new))
        table.header = table.header and table.kind == "csv"
        if table.kind == "libsvm":  # what is absent is 0
            for column in columns:
                column.train, column.new = ([v if v not in MISSING else "0" for v in of]
                                            for of in (column.train, column.new))
    return table


def check_random(rubato, work, script, count):
    """Returns: whether all tables agree."""
    rng = random.Random(7)
    tables = [random_table(rng) for _ in range(count)]
    for i, table in enumerate(tables):
        table.write(os.path.join(work, f"table-{i}"), rng)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda table: table.run(rubato), tables))
    check.run_jobs(work, script, [table.job for table in tables])
    worst, failed, opencv = [0, 0], 0, 0
    for table in tables:
        errors, wrong = table.compare()
        worst = [max(a, b) for a, b in zip(worst, errors)]
        opencv += table.opencv() is not None
        if max(errors) > TOLERANCE or wrong:
            failed += 1
            print(f"{table.directory}: {errors} {'; '.join(wrong)}", file=sys.stderr)
    print(f"{count} random tables, {failed} of them wrong: scores of onnxruntime within {worst[0]:.1e}, of OpenCV, "
          f"which runs {opencv}, within {worst[1]:.1e}; {sum(t.ties for t in tables)} ties of two classes")
    return failed == 0


def main():
    rubato, work, script = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 60
    cases = check_cases(rubato, work, script)
    if not check_random(rubato, work, script, count) or not cases:
        print("engines: tables do not agree", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
