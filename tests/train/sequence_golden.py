# Prints the numbers of "cnn1d: ... as PyTorch's Conv1d" in tests/train/layer_test.cpp: what PyTorch does.
# Run by hand: python3 tests/train/sequence_golden.py (Debian package python3-torch, 1.13).
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
STEPS, FEATURES, FILTERS, CLASSES = 9, 3, (4, 3), 2
SHAPES = {"conv1.weight": (4, 1, 5, 3), "conv1.bias": (4,), "conv2.weight": (3, 4, 5, 1), "conv2.bias": (3,),
          "dense1.weight": (2, 6), "dense1.bias": (2,)}

# The flat vector, and its tensors as a model file has them.
count = sum(torch.Size(shape).numel() for shape in SHAPES.values())
flat = 0.4 * torch.sin(0.7 * torch.arange(count) + 1)
pieces = flat.split([torch.Size(shape).numel() for shape in SHAPES.values()])
tensors = {name: piece.reshape(shape) for (name, shape), piece in zip(SHAPES.items(), pieces)}

model = nn.Sequential(
    nn.Conv1d(FEATURES, FILTERS[0], 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
    nn.Conv1d(FILTERS[0], FILTERS[1], 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
    nn.Flatten(), nn.Linear(6, CLASSES))
first, second, dense = model[0], model[3], model[7]
first.weight.data = tensors["conv1.weight"].squeeze(1).transpose(1, 2).contiguous()
second.weight.data = tensors["conv2.weight"].squeeze(3)
dense.weight.data = tensors["dense1.weight"]
for module, name in (first, "conv1"), (second, "conv2"), (dense, "dense1"):
    module.bias.data = tensors[name + ".bias"]

x = torch.cos(1.3 * torch.arange(2 * STEPS * FEATURES)).reshape(2, STEPS, FEATURES)
loss = nn.functional.cross_entropy(model(x.transpose(1, 2)), torch.tensor([0, 1]), reduction="sum")
(loss / 2).backward()
gradients = [first.weight.grad.transpose(1, 2), first.bias.grad, second.weight.grad, second.bias.grad,
             dense.weight.grad, dense.bias.grad]
print("loss", loss.item())
print("gradients of each tensor, by cos(place)",
      [(g.flatten() * torch.cos(torch.arange(g.numel()))).sum().item() for g in gradients])
