"""Values that the Rust tests make too, from a tensor's key, its shape and a seed: weights, images and
targets without a file. `python seeded.py` prints a few of them, to be compared with the Rust side.

The key of a weight is always torchvision's current one (`features.norm0.weight`, `layer1.0.conv1.weight`,
`classifier.weight`, `fc.bias`), whatever the style of the checkpoint that holds it.
"""

import numpy as np
import torch

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
BATCHES_TRACKED = 7


def fnv1a(text):
    """64-bit FNV-1a hash of the text as UTF-8."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def uniform(key, shape, seed):
    """float64 numbers in [0, 1), multiples of 2^-24: SplitMix64 started at the hash of the key."""
    start = np.uint64(fnv1a(key) ^ (seed * GOLDEN_GAMMA % 2**64))
    count = int(np.prod(shape))
    z = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)) / 2**24).reshape(shape)


def values(key, shape, seed, low, high):
    """float32 tensor between the two limits; computed in float64 and rounded once."""
    return torch.from_numpy((low + (high - low) * uniform(key, shape, seed)).astype(np.float32))


def limits(key, shape):
    """Lower and upper limit of a weight, by torchvision's key and the shape."""
    if key.endswith("running_var"):
        return 0.5, 1.5
    if key.endswith("running_mean"):
        return -0.2, 0.2
    if key.endswith("bias"):
        return (-0.1, 0.1) if key in ("classifier.bias", "fc.bias") else (-0.2, 0.2)
    if len(shape) == 4:
        bound = np.sqrt(6 / (shape[1] * shape[2] * shape[3]))
        return -bound, bound
    if len(shape) == 2:
        bound = 1 / np.sqrt(shape[1])
        return -bound, bound
    return 0.5, 1.5


def weight(key, shape, seed):
    """The tensor of a model that torchvision calls `key`."""
    if key.endswith("num_batches_tracked"):
        return torch.tensor(BATCHES_TRACKED)
    return values(key, shape, seed, *limits(key, shape))


def fill(model, seed):
    """Fills a torchvision model, or one with the same keys, and returns it."""
    state = {key: weight(key, tensor.shape, seed) for key, tensor in model.state_dict().items()}
    model.load_state_dict(state)
    return model


def images(name, shape, seed):
    """Normalised images, values from -2 to 2."""
    return values(name, shape, seed, -2, 2)


def targets(name, shape, seed):
    """1.0 where the uniform number is at least 0.7, else 0.0."""
    return torch.from_numpy((uniform(name, shape, seed) >= 0.7).astype(np.float32))


def main():
    samples = {
        "classifier.weight [14, 1024]": weight("classifier.weight", [14, 1024], 1),
        "features.conv0.weight [64, 3, 7, 7]": weight("features.conv0.weight", [64, 3, 7, 7], 1),
        "features.norm0.weight [64]": weight("features.norm0.weight", [64], 1),
        "features.norm0.running_mean [64]": weight("features.norm0.running_mean", [64], 1),
        "images [1, 3, 2, 2]": images("images", [1, 3, 2, 2], 1),
        "targets [4, 14]": targets("targets", [4, 14], 1),
    }
    print("first three values, seed 1")
    for name, tensor in samples.items():
        first = tensor.flatten()[:3].numpy()
        bits = " ".join(f"{value:#010x}" for value in first.view(np.uint32))
        print(f"{name}: {' '.join(str(value) for value in first)}  ({bits})")


if __name__ == "__main__":
    main()
