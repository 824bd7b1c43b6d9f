"""Checks the safetensors files that Rust has exported: `python tests/reference/check_export.py EXPORTS`.

Each EXPORTS/<architecture>.safetensors has to load strictly into torchvision's model of 14 outputs, to equal the
seeded weights (seed 1) bit for bit, and to give the logits of a model that was filled here. One line per
file; exit 1 with one line at the first difference, or if the folder has no such file.
"""

import sys
from pathlib import Path

import torch
import torchvision
from safetensors import SafetensorError
from safetensors.torch import load_file

import seeded

ARCHITECTURES = ["densenet121", "densenet161", "densenet169", "densenet201", "resnet50"]
LABELS = 14


def logits(model):
    with torch.no_grad():
        return model.eval()(seeded.images("images", [4, 3, 224, 224], 1))


def check(path):
    """Largest deviation of the logits as a share of the largest logit."""
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        sys.exit(f"{path}: cannot be read: {error}")
    model = torchvision.models.get_model(path.stem, num_classes=LABELS)
    try:
        # Strict all the same: PyTorch adds num_batches_tracked to a state of an old version.
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        sys.exit(f"{path}: does not load strictly: {' '.join(str(error).split())}")
    for key, tensor in state.items():
        expected = seeded.weight(key, tensor.shape, 1)
        if tensor.dtype != expected.dtype:
            sys.exit(f"{path}: {key} is {tensor.dtype}, not {expected.dtype}")
        same = tensor.reshape(-1).view(torch.uint8) == expected.reshape(-1).view(torch.uint8)
        if not same.all():
            elements = same.reshape(-1, tensor.element_size()).all(dim=1)
            index = int((~elements).nonzero()[0])
            found, wanted = tensor.flatten()[index], expected.flatten()[index]
            sys.exit(f"{path}: {key} differs at element {index}: {found:.9g} instead of {wanted:.9g}")
    reference = logits(seeded.fill(torchvision.models.get_model(path.stem, num_classes=LABELS), 1))
    return float((logits(model) - reference).abs().max() / reference.abs().max())


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_export.py EXPORTS")
    folder = Path(sys.argv[1])
    paths = [folder / f"{architecture}.safetensors" for architecture in ARCHITECTURES]
    paths = [path for path in paths if path.is_file()]
    if not paths:
        sys.exit(f"{folder}: has none of {', '.join(f'{name}.safetensors' for name in ARCHITECTURES)}")
    for path in paths:
        deviation = check(path)
        if not deviation == 0:
            sys.exit(f"{path}: logits deviate by {deviation:.2e}")
        print(f"{path}: {deviation:.2e}")


if __name__ == "__main__":
    main()
