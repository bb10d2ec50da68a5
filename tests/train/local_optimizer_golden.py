# Prints the numbers of tests/train/local_optimizer_test.cpp and trainer_test.cpp: what PyTorch does.
# Run by hand: python3 tests/train/local_optimizer_golden.py (Debian package python3-torch, 1.13).
import warnings

import torch

warnings.filterwarnings("ignore")
O = torch.optim
S = O.lr_scheduler
A = torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
C = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)


# W after 1, 10 and 40 steps along the gradient A (W - C).
def path(make, clip=None):
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    out = []
    for n in range(1, 41):
        optimizer.zero_grad()
        (0.5 * A * (w - C) ** 2).sum().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([w], clip)
        optimizer.step()
        if n in (1, 10, 40):
            out.append(w.tolist())
    return out


# The rate of some steps, of a schedule that follows a warm-up of 8 steps.
def rates(make):
    w = torch.zeros(1, requires_grad=True)
    optimizer = O.SGD([w], lr=0.4)
    warm_up = S.LinearLR(optimizer, 1 / 9, total_iters=8)
    schedule = S.SequentialLR(optimizer, [warm_up, make(optimizer)], milestones=[8])
    out = []
    for n in range(49):
        if n in (0, 3, 7, 8, 20, 33, 48):
            out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


print("sgd", path(lambda p: O.SGD(p, lr=0.05, weight_decay=0.1)))
print("momentum", path(lambda p: O.SGD(p, lr=0.05, momentum=0.8, weight_decay=0.1)))
print("clipped", path(lambda p: O.SGD(p, lr=0.05, momentum=0.8), clip=2.0))
adamw = dict(lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
print("adamw", path(lambda p: O.AdamW(p, **adamw)))
print("adamw, clipped", path(lambda p: O.AdamW(p, **adamw), clip=2.0))
print("exponential", rates(lambda o: S.ExponentialLR(o, 0.5 ** (1 / 10))))
print("step", rates(lambda o: S.StepLR(o, 10, 0.1)))
print("cosine", rates(lambda o: S.CosineAnnealingLR(o, 40, eta_min=0.04)))
