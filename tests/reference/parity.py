"""Writes what PyTorch computes in float64 with seeded weights, as safetensors files of the folder OUT:
logits of five models, gradients, running statistics and a training curve of DenseNet-121, and all gradients
and a curve of a small DenseNet.

    python tests/reference/parity.py OUT               everything, and the weights of the five models
    python tests/reference/parity.py OUT --committed   gradients and statistics sampled, to be committed:
                                                       OUT = burn-chexnet/tests/data/pytorch

Weights and images are the float32 values of seeded.py cast to float64. PyTorch's own float32 result lies
beside each value under a name that starts with `float32`, to show how far float32 may be from float64.
Where other programs share the cores, OMP_WAIT_POLICY=PASSIVE makes it many times faster.
Made with torch 2.15.0 and torchvision 0.29.2.
"""

import argparse
from pathlib import Path

import torch
import torchvision
from safetensors.torch import save_file
from torch.nn.functional import binary_cross_entropy_with_logits

import seeded

ARCHITECTURES = ["densenet121", "densenet161", "densenet169", "densenet201", "resnet50"]
LABELS = 14
SAMPLE = 16

CURVE_STEPS = 20
# A ReLU whose input is nearly 0 may be on in float64 and off in float32: some ten of ten million are, and
# each changes gradients by far more than rounding does (relative 3e-3, against 8e-7 with a smooth
# activation). At 1e-5 the losses of float32 are therefore already 7e-4 away from float64; here 6e-5.
CURVE_LEARNING_RATE = 3e-6
# Smaller and better conditioned: at this rate its loss halves, and float32 stays within 1e-6.
SMALL_CURVE_LEARNING_RATE = 3e-3
# Adam's first steps have the same size for every weight, also for those whose gradient is noise. With
# plain descent the weights move, and the statistics of float32 stay within 1.2e-6 (1.6e-4 at 1e-3).
STATISTICS_STEPS = 3
STATISTICS_LEARNING_RATE = 1e-5


def summed_loss(logits, targets):
    """Binary cross entropy: sum over the labels, mean over the images."""
    return binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits)


def build(architecture, kind):
    model = torchvision.models.get_model(architecture, num_classes=LABELS)
    return seeded.fill(model, 1).to(kind)


def build_small(kind):
    model = torchvision.models.DenseNet(
        growth_rate=8, block_config=(2, 2), num_init_features=16, bn_size=2, num_classes=3
    )
    return seeded.fill(model, 2).to(kind)


def sample(tensor):
    """At most 16 elements of the flattened tensor, at equal steps from the first."""
    count = tensor.numel()
    kept = min(count, SAMPLE)
    return tensor.flatten()[[j * count // kept for j in range(kept)]]


def relative(values, reference):
    """Relative L2 deviation."""
    return float((values.double() - reference).norm() / reference.norm())


def largest(values, reference):
    """Largest deviation as a share of the largest value."""
    return float((values.double() - reference).abs().max() / reference.abs().max())


def report(title, tensors, prefix):
    """Prints the deviation of float32 from float64, over all tensors and of the worst one."""
    keys = [key.removeprefix("float32.") for key in tensors if key.startswith("float32.")]
    pairs = {key: (tensors[f"float32.{key}"], tensors[prefix + key]) for key in keys}
    everything = [torch.cat([values.double().flatten() for values in side]) for side in zip(*pairs.values())]
    worst = max(pairs, key=lambda key: relative(*pairs[key]))
    print(f"{title}: global {relative(*everything):.2e}, worst {relative(*pairs[worst]):.2e} {worst}")


def logits(architecture):
    images = seeded.images("images", [4, 3, 224, 224], 1)
    with torch.no_grad():
        exact = build(architecture, torch.float64).eval()(images.double())
        single = build(architecture, torch.float32).eval()(images)
    deviation, value = largest(single, exact), exact.abs().max()
    print(f"logits of {architecture}: largest deviation {deviation:.2e}, largest value {value:.3f}")
    return {"logits": exact, "float32_logits": single}


def gradients(build_model, images, targets):
    """Loss and gradients of one backward pass in training mode."""
    tensors = {}
    for kind, prefix in ((torch.float64, "gradient."), (torch.float32, "float32.")):
        model = build_model(kind).train()
        loss = summed_loss(model(images.to(kind)), targets.to(kind))
        loss.backward()
        if kind == torch.float64:
            tensors["loss"] = loss.detach().reshape(1)
        tensors |= {prefix + key: parameter.grad for key, parameter in model.named_parameters()}
    return tensors


def losses(model, images, targets, learning_rate):
    """Losses before each of twenty Adam steps on one batch."""
    kind = next(model.parameters()).dtype
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.999), eps=1e-8)
    found = []
    for _ in range(CURVE_STEPS):
        optimizer.zero_grad()
        loss = summed_loss(model(images.to(kind)), targets.to(kind))
        loss.backward()
        found.append(loss.item())
        optimizer.step()
    return torch.tensor(found, dtype=torch.float64)


def curve(title, build_model, images, targets, learning_rate):
    exact, single = [
        losses(build_model(kind).train(), images, targets, learning_rate)
        for kind in (torch.float64, torch.float32)
    ]
    deviation = ((single - exact) / exact).abs().max()
    print(f"curve of {title}: {exact[0]:.4f} to {exact[-1]:.4f}, largest deviation {deviation:.2e}")
    rate = torch.tensor([learning_rate], dtype=torch.float64)
    return {"losses": exact, "float32_losses": single, "learning_rate": rate}


def running_statistics(kind):
    """Of DenseNet-121 after steps of gradient descent on three different batches."""
    model = build("densenet121", kind).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=STATISTICS_LEARNING_RATE)
    for step in range(1, STATISTICS_STEPS + 1):
        images = seeded.images(f"images of step {step}", [8, 3, 64, 64], 1).to(kind)
        targets = seeded.targets(f"targets of step {step}", [8, LABELS], 1).to(kind)
        optimizer.zero_grad()
        summed_loss(model(images), targets).backward()
        optimizer.step()
    state = model.state_dict()
    return {key: state[key] for key in state if "running_" in key}


def statistics():
    exact, single = running_statistics(torch.float64), running_statistics(torch.float32)
    worst = max(largest(single[key], exact[key]) for key in exact)
    print(f"running statistics: largest deviation {worst:.2e}")
    rate = torch.tensor([STATISTICS_LEARNING_RATE], dtype=torch.float64)
    return {"learning_rate": rate, **{f"running.{key}": value for key, value in exact.items()}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--committed", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def write(name, tensors):
        tensors = {key: value.detach().contiguous() for key, value in tensors.items()}
        path = options.out / f"{name}.safetensors"
        save_file(tensors, path)
        path.chmod(0o644)

    def sampled(tensors):
        """The tensors that have a key of the model, sampled; the others, whole."""
        return {key: sample(value) if "." in key else value for key, value in tensors.items()}

    for architecture in ARCHITECTURES:
        write(f"logits_{architecture}", logits(architecture))

    images = seeded.images("images", [4, 3, 224, 224], 1)
    targets = seeded.targets("targets", [4, LABELS], 1)
    training = gradients(lambda kind: build("densenet121", kind), images, targets)
    print(f"training: loss {training['loss'].item():.15f}")
    report("training, all elements", training, "gradient.")
    report("training, sample", sampled(training), "gradient.")
    write("training_densenet121", sampled(training) if options.committed else training)

    tensors = statistics()
    write("statistics_densenet121", sampled(tensors) if options.committed else tensors)

    images = seeded.images("curve", [8, 3, 64, 64], 1)
    targets = seeded.targets("curve_targets", [8, LABELS], 1)
    densenet121 = lambda kind: build("densenet121", kind)
    write("curve_densenet121",
          curve("densenet121", densenet121, images, targets, CURVE_LEARNING_RATE))

    images = seeded.images("small", [8, 3, 32, 32], 2)
    targets = seeded.targets("small_targets", [8, 3], 2)
    small = gradients(build_small, images, targets)
    print(f"small: loss {small['loss'].item():.15f}")
    report("small", small, "gradient.")
    write("small", small)
    write("curve_small", curve("small", build_small, images, targets, SMALL_CURVE_LEARNING_RATE))

    if not options.committed:
        folder = options.out / "weights"
        folder.mkdir(exist_ok=True)
        for architecture in ARCHITECTURES:
            torch.save(build(architecture, torch.float32).state_dict(), folder / f"{architecture}.pth")


if __name__ == "__main__":
    main()
