"""Writes golden.json beside itself: what PyTorch's optimisers and schedules do in 50 steps of a toy
problem, in float64. Needs torch (made with 2.15):  python3 golden.py
"""

import json
import pathlib

import torch

torch.set_default_dtype(torch.float64)
STEPS = 50
KEPT = [1, 2, 10, 50]


def wave(*shape, phase):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count) * 0.7 + phase).reshape(shape)


def run(optimizer, schedule=None, clip=None):
    """Parameters after the kept steps, and the learning rate of every step."""
    inputs, targets = wave(8, 3, phase=0.1), wave(8, 2, phase=0.5)
    first = wave(3, 4, phase=0.2).requires_grad_()
    second = wave(4, 2, phase=0.3).requires_grad_()
    parameters = [first, second]
    optimizer = optimizer(parameters)
    scheduler = schedule(optimizer) if schedule else None
    kept, rates = [], []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = ((torch.tanh(inputs @ first) @ second - targets) ** 2).mean()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(loss.item())
        elif scheduler:
            scheduler.step()
        if step in KEPT:
            kept.append([value for p in parameters for value in p.detach().flatten().tolist()])
    return {"parameters": kept, "rates": rates}


def adam(**options):
    return lambda parameters: torch.optim.Adam(parameters, lr=0.05, **options)


def sgd(**options):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.05, **options)


lr = torch.optim.lr_scheduler
CASES = {
    "adam": run(adam()),
    "adam, decay": run(adam(weight_decay=0.01)),
    "adamw": run(lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.01)),
    "sgd": run(sgd()),
    "sgd, momentum": run(sgd(momentum=0.9)),
    "sgd, nesterov, decay": run(sgd(momentum=0.9, nesterov=True, weight_decay=0.01)),
    "sgd, clipped": run(sgd(momentum=0.9), clip=0.1),
    "cosine": run(sgd(), lambda o: lr.CosineAnnealingLR(o, T_max=STEPS, eta_min=0.001)),
    "step": run(sgd(), lambda o: lr.StepLR(o, step_size=8, gamma=0.5)),
    "warm-up, cosine": run(
        sgd(),
        lambda o: lr.SequentialLR(
            o,
            [
                lr.LinearLR(o, start_factor=0.1, total_iters=5),
                lr.CosineAnnealingLR(o, T_max=45),
            ],
            milestones=[5],
        ),
    ),
    # A rate so high that the loss does not fall at every step.
    "plateau": run(
        lambda p: torch.optim.SGD(p, lr=0.6, momentum=0.95),
        lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=2),
    ),
}

path = pathlib.Path(__file__).with_name("golden.json")
path.write_text(json.dumps(CASES, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
