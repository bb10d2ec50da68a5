#!/usr/bin/python3
"""Shows that `rubato predict` and the model file give the same for sequences of every kind of channel.

Usage: sequences.py RUBATO WORK SCRIPT [COUNT]   WORK, SCRIPT: as of check.py.
COUNT random data sets (40), each with a model that trains for a moment. The judges are onnxruntime on
model.onnx, and PyTorch on model.safetensors with inputs that are scaled here, from the samples alone.
"""
import concurrent.futures
import json
import os
import sys

import numpy
import onnx
import torch

import check

MODELS = ['kind = "lstm"\nhidden = [6, 5]', 'kind = "cnn1d"\nhidden = [6, 5]', 'kind = "mlp"\nhidden = [7]',
          'kind = "mlp"\nhidden = []', 'kind = "svm"']


class Case:
    """Random sequences, what each is, and how a model of them is trained."""

    def __init__(self, rng, directory):
        self.directory, self.path, self.raw, self.job = directory, None, None, None
        self.regression = rng.random() < 0.4
        self.standardize = rng.random() < 0.7
        self.model = rng.choice(MODELS[:-1] if self.regression else MODELS)
        samples, self.steps, channels = rng.integers((30, 8, 1), (90, 40, 6))
        # What a model takes as it is has to be small.
        kinds = ["near"] * 4 + ["constant", "far", "empty"] if self.standardize else ["near"]
        self.kinds = ["near"] + list(rng.choice(kinds, channels - 1))
        self.offsets, self.deviations = rng.choice([0, 3, -5], channels), rng.choice([0.5, 1, 4], channels)
        self.gaps = rng.choice([0, 0.1, 0.5], channels)
        self.x, self.new = self.sequences(rng, samples, False), self.sequences(rng, 40, True)
        if "far" not in self.kinds and rng.random() < 0.5:
            self.x = self.x.astype(numpy.float32)
        self.y = rng.normal(100, 3, samples) if self.regression else rng.choice(["up", "down", "flat"], samples)
        if not self.regression:
            self.y[:3] = ["up", "down", "flat"]
        stored = numpy.asfortranarray(self.x) if rng.random() < 0.3 else self.x.astype(self.x.dtype.newbyteorder(">"))
        os.makedirs(directory)
        numpy.savez(os.path.join(directory, "train.npz"), x=stored, y=self.y)

    def sequences(self, rng, samples, new):
        """New ones have gaps in each channel, and values where training had none or one."""
        x = numpy.empty((samples, self.steps, len(self.kinds)))
        for channel, kind in enumerate(self.kinds):
            shape = x.shape[:2]
            noise = rng.normal(size=shape)
            x[:, :, channel] = {"near": self.offsets[channel] + self.deviations[channel] * noise,
                                "constant": 0.1 + new * noise, "far": 1.7e9 + 20 * noise,
                                "empty": noise if new else numpy.full(shape, numpy.nan)}[kind]
            x[:, :, channel][rng.random(shape) < max(self.gaps[channel], 0.1 * new)] = numpy.nan
        return x

    def run(self, rubato):
        """Trains on all samples, as others are held out, and writes the new ones as the graph takes them."""
        data = os.path.join(self.directory, "train.npz")
        keys = [f'path = "{data}"', f'held_out_path = "{data}"', f"standardize = {str(self.standardize).lower()}"]
        if self.regression:
            keys.append('task = "regression"')
        self.path = check.train(rubato, self.directory, "run", self.model, "\n".join(keys))
        kind = onnx.load(self.path + ".onnx").graph.input[0].type.tensor_type.elem_type
        self.raw = self.new.astype(numpy.float64 if kind == onnx.TensorProto.DOUBLE else numpy.float32)
        new = os.path.join(self.directory, "new.npy")
        numpy.save(new, self.raw)
        self.job = check.onnx_job(self.path, self.raw, None, ["prediction" if self.regression else "scores"])
        return check.predicted(rubato, self.path, new, 1 if self.regression else 2)

    def inputs(self):
        """The inputs of the new samples, by the rules of docs/data.md."""
        inputs = numpy.empty(self.raw.shape)
        for channel in range(self.raw.shape[2]):
            there = self.x[:, :, channel].astype(numpy.float64)
            there = there[~numpy.isnan(there)]
            mean, deviation = (there.mean(), there.std()) if there.size else (0, 0)
            scaling = (mean, deviation if deviation > 2e-15 * abs(mean) else 1) if self.standardize else (0, 1)
            values = self.raw[:, :, channel].astype(numpy.float64)
            inputs[:, :, channel] = (numpy.where(numpy.isnan(values), mean, values) - scaling[0]) / scaling[1]
        return torch.from_numpy(inputs.astype(numpy.float32)).unsqueeze(1)

    def by_the_rules(self):
        """What PyTorch gives for them."""
        tensors, metadata = check.read_safetensors(self.path + ".safetensors")
        inputs = self.inputs()
        with torch.no_grad():
            outputs = check.torch_model(json.loads(metadata["rubato.model"]), inputs[:1], tensors)(inputs)
        if self.regression:
            mean, deviation = (self.y.mean(), self.y.std()) if self.standardize else (0, 1)
            return outputs.double().numpy() * deviation + mean
        return (outputs if "svm" in self.model else torch.softmax(outputs, 1)).numpy()

    def errors(self, ours):
        """How far the judges are from predict, relative to the largest."""
        theirs = check.onnx_result(self.job, self.job["outputs"][0], len(self.raw))
        centre = self.y.mean() if self.regression else 0
        unit = max(self.y.std() if self.regression else 1, numpy.abs(ours - centre).max())
        return [float(numpy.abs(scores - ours).max() / unit) for scores in (theirs, self.by_the_rules())]


def main():
    rubato, work, script = sys.argv[1:4]
    rng = numpy.random.default_rng(8)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 40
    cases = [Case(rng, os.path.join(work, f"sequences-{i}")) for i in range(count)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        predicted = list(pool.map(lambda case: case.run(rubato), cases))
    check.run_jobs(work, script, [case.job for case in cases])
    worst, failed = [0, 0], 0
    for case, ours in zip(cases, predicted):
        errors = case.errors(ours)
        worst = [max(pair) for pair in zip(worst, errors)]
        if not max(errors) <= check.TOLERANCE:
            failed += 1
            print(f"{case.directory}: {errors}; {case.model}; channels {case.kinds}", file=sys.stderr)
    print(f"{count} random data sets of sequences, {failed} of them wrong: scores of onnxruntime within {worst[0]:.1e}, "
          f"by the rules within {worst[1]:.1e}")
    if failed:
        print("engines: sequences do not agree", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
