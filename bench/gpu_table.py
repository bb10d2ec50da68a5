#!/usr/bin/env python3
"""The table of bench/gpu.sh: step times on the GPU beside PyTorch eager, and what commits cost.

Usage: bench/gpu_table.py RESULTS   with steps.toml of `rubato bench --save` and commits.json
PyTorch trains the models of `rubato bench` in float32, TF32 off, on data that lie on the GPU.
Without PyTorch, or without its GPU, its columns are empty and a line says why.
"""
import json
import pathlib
import re
import statistics
import sys
import time
import tomllib

STEP = re.compile(r": (\w+), batch (\d+), ([0-9.e+-]+) s a step on cuda")
SAMPLES = 4096
WARM_UP = 10
ROUNDS = 5
SECONDS = 0.4  # of one round


def our_steps(path):
    """{(model, batch): seconds}"""
    found = {}
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["devices"]:
        match = STEP.search(row["source"])
        if match:
            found[match[1], int(match[2])] = float(match[3])
    return found


def models(torch, parts):
    nn = torch.nn

    def lstm():  # 28 rows of 28 pixels, as `rubato bench` has it
        return nn.Sequential(parts.LastHidden(28, 128), nn.Linear(128, 384), nn.ReLU(),
                             nn.Linear(384, 10))
    return {"mlp": (parts.CASES["mlp"][0], (1, 28, 28)), "lenet": (parts.lenet, (1, 28, 28)),
            "cnn": (parts.adsp_cnn, (3, 32, 32)), "cnn1d": (parts.sequence_cnn, (9, 128)),
            "lstm": (lstm, (1, 28, 28))}


def eager_step(torch, make, shape, batch):
    """Seconds of a step: samples are chosen and scaled, forward, backward, SGD. No step is waited
    for alone."""
    torch.manual_seed(1)
    model = make().cuda()
    pixels = torch.randint(0, 256, (SAMPLES, *shape), dtype=torch.uint8, device="cuda")
    labels = torch.randint(0, 10, (SAMPLES,), device="cuda")
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step():
        chosen = torch.randint(0, SAMPLES, (batch,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(pixels[chosen].float() * (1 / 255)), labels[chosen]).backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        steps = 0
        while steps < 10 or time.perf_counter() - begin < SECONDS:
            step()
            steps += 1
            if steps % 10 == 0:  # else steps are queued without end
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / steps)
    return statistics.median(rounds)


def eager_steps(wanted):
    """({(model, batch): seconds}, what PyTorch it was or why there is none)"""
    try:
        import torch
    except ImportError:
        return {}, "no PyTorch for this Python; PYTHON=... bench/gpu.sh takes another one"
    if not torch.cuda.is_available():
        return {}, f"PyTorch {torch.__version__} sees no GPU"
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import pytorch_step
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    known = models(torch, pytorch_step)
    steps = {(model, batch): eager_step(torch, *known[model], batch)
             for model, batch in wanted if model in known}
    return steps, f"PyTorch {torch.__version__} eager, on {torch.cuda.get_device_name()}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[2])
    results = pathlib.Path(sys.argv[1])
    ours = our_steps(results / "steps.toml")
    if not ours:
        sys.exit(f"gpu_table: {results}/steps.toml has no step on a GPU")
    theirs, peer = eager_steps(ours)
    print(f"{peer}\n")
    print(f"{'Model':8}{'Batch':>6}{'rubato us':>12}{'PyTorch us':>12}{'times as fast':>15}")
    for (model, batch), seconds in ours.items():
        line = f"{model:8}{batch:6}{seconds * 1e6:12.1f}"
        if (model, batch) in theirs:
            other = theirs[model, batch]
            line += f"{other * 1e6:12.1f}{other / seconds:15.2f}"
        print(line)
    print("\nA commit of 64 MiB in flight all the time:")
    for row in json.loads((results / "commits.json").read_text(encoding="utf-8")):
        alone = f" ({row['peer']} {row['peer_value']:.4g})" if row["peer"] else ""
        print(f"{row['name']:48}{row['value']:10.4g} {row['unit']}{alone}")


main()
