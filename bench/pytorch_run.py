"""bench/pytorch_run.py - one process of the peer of bench/whole_runs.py: PyTorch's
DistributedDataParallel over gloo trains 784-64-10 on Fashion-MNIST. Each process has its share of
the samples. A step takes at least its step time; the rest of it is slept.

After each BETWEEN steps the first process measures the loss on all held-out samples. It stops all
of them once the mean of its last five measurements reaches the target. The time of measuring does
not count.
Usage: pytorch_run.py RANK PROCESSES PORT STEP_SECONDS RATE TARGET MAX_SECONDS BETWEEN SEED
Prints (first process): seconds of training to the target, or "none"; steps of each process.
"""
import gzip
import os
import sys
import time

import torch
from torch import distributed, nn

PLACE = "/usr/share/datasets/fashion-mnist/"
BATCH = 32


def numbers(name, header):
    with gzip.open(f"{PLACE}{name}-ubyte.gz") as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def samples(part):
    images = numbers(f"{part}-images-idx3", 16).reshape(-1, 784).float()
    return images, numbers(f"{part}-labels-idx1", 8).long()


def network():
    """Weights as Rubato's `scaled`: normal, He before the ReLU, Glorot before the loss."""
    layers = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    nn.init.kaiming_normal_(layers[0].weight)
    nn.init.xavier_normal_(layers[2].weight)
    for layer in (layers[0], layers[2]):
        nn.init.zeros_(layer.bias)
    return layers


def main():
    rank, processes, port = (int(word) for word in sys.argv[1:4])
    step_seconds, rate, target, most = (float(word) for word in sys.argv[4:8])
    between, seed = (int(word) for word in sys.argv[8:10])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images, labels = samples("train")
    mean, deviation = images.mean(), images.std()
    held, held_labels = samples("t10k")
    images, held = (images - mean) / deviation, (held - mean) / deviation
    order = torch.randperm(len(labels))[rank::processes]  # the same permutation in each process
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    distributed.init_process_group("gloo", rank=rank, world_size=processes)
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(seed * 100 + rank)
    losses, spent, reached, steps, place = [], 0.0, None, 0, len(order)
    done = torch.zeros(1)
    distributed.barrier()
    while not done.item():
        began = time.perf_counter()
        for _ in range(between):
            start = time.perf_counter()
            if place + BATCH > len(order):
                order, place = order[torch.randperm(len(order))], 0
            rows = order[place:place + BATCH]
            place += BATCH
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(images[rows]), labels[rows])
            # The gradients leave when the step's own time is over.
            time.sleep(max(0.0, step_seconds - (time.perf_counter() - start)))
            loss.backward()
            optimizer.step()
            steps += 1
        spent += time.perf_counter() - began
        if rank == 0:
            with torch.no_grad():
                losses.append(loss_of(model.module(held), held_labels).item())
            if len(losses) >= 5 and sum(losses[-5:]) / 5 <= target:
                reached = spent
            done[0] = float(reached is not None or spent > most)
        distributed.broadcast(done, 0)
    if rank == 0:
        print(reached if reached is not None else "none", steps)


if __name__ == "__main__":
    main()
