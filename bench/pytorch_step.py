"""bench/pytorch_step.py - the peer of bench/cpu_step.cpp: the same models, batches and whole
training steps in PyTorch on one thread. Speaks the same lines on stdin and stdout."""

import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)


class LastHidden(nn.Module):
    """An LSTM over the rows of an image, its last hidden state."""

    def __init__(self, features, hidden):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)

    def forward(self, x):
        return self.lstm(x.squeeze(1))[0][:, -1]


def adsp_cnn():
    norm = dict(size=9, alpha=0.001, beta=0.75, k=1.0)  # PyTorch divides alpha by size
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(**norm),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), nn.LocalResponseNorm(**norm),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(64 * 8 * 8, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def sequence_cnn():
    return nn.Sequential(
        nn.Conv1d(9, 64, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(64, 64, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
        nn.Flatten(), nn.Linear(64 * 32, 10))


CASES = {  # model, shape of a sample, batch
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)),
            (1, 28, 28), 32),
    "lenet": (lenet, (1, 28, 28), 128),
    "cnn": (adsp_cnn, (3, 32, 32), 128),
    "lstm": (lambda: nn.Sequential(LastHidden(1, 64), nn.Linear(64, 64), nn.ReLU(),
                                   nn.Linear(64, 10)),
             (1, 128, 1), 32),
    "cnn1d": (sequence_cnn, (9, 128), 32),
    "svm": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 10)), (8, 1, 1), 32),
}


class Training:
    def __init__(self, name):
        make, shape, self.batch = CASES[name]
        torch.manual_seed(1)
        self.model = make()
        self.inputs = torch.rand(self.batch, *shape)
        self.labels = torch.randint(0, 10, (self.batch,))
        self.loss = nn.MultiMarginLoss() if name == "svm" else nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        for _ in range(3):
            self.step()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model(self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def samples_per_second(self, seconds):
        start = time.process_time()
        spent = 0.0
        steps = 0
        while spent < seconds:
            for _ in range(5):
                self.step()
            steps += 5
            spent = time.process_time() - start
        return steps * self.batch / spent


def main():
    trainings = {}
    for line in sys.stdin:
        case, time_limit = line.split()
        if case not in trainings:
            trainings[case] = Training(case)
        print(f"{trainings[case].samples_per_second(float(time_limit)):.1f}", flush=True)


if __name__ == "__main__":
    main()
