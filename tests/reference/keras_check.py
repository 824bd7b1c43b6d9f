"""Checks scripts/keras_to_safetensors.py against Keras itself, and writes a reference.

    KERAS_BACKEND=torch python tests/reference/keras_check.py OUT

Needs keras, h5py, safetensors, torch and torchvision (made with Keras 3.15.1, h5py 3.16.0 and
PyTorch 2.15.0). Saves a DenseNet-121 with 14 outputs and random weights in every layout that the
script reads and converts each; all must give the same tensors, and torchvision's network must
compute Keras' logits from them. Files that the script has to refuse are tried, too. Leaves in OUT

- keras.safetensors, the converted weights,
- keras_reference.safetensors: `images` [2, 3, 224, 224], `logits` [2, 14] of Keras in float64.
  (Its batch normalisation still computes in float32.)

Ends with exit code 1 and the reason if anything is wrong.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import pathlib
import subprocess
import sys
import tempfile

import h5py
import keras
import numpy as np
import torch
import torchvision
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "keras_to_safetensors.py"
KERAS_EPSILON, TORCH_EPSILON = 1.001e-5, 1e-5
OUTPUTS = 14
TOLERANCE = 1e-4
random = np.random.default_rng(121)


def require(condition, reason):
    if not condition:
        sys.exit(f"keras_check: {reason}")


def float32(values):
    return np.asarray(values).astype(np.float32)


def densenet(floatx, activation):
    keras.config.set_floatx(floatx)
    return keras.applications.DenseNet121(
        weights=None, include_top=True, classes=OUTPUTS, classifier_activation=activation,
        input_shape=(224, 224, 3),
    )


def random_images():
    """Coarse patterns, so that the images differ after average pooling."""
    coarse = random.normal(size=(2, 7, 7, 3)).repeat(32, axis=1).repeat(32, axis=2)
    return float32(coarse + 0.3 * random.normal(size=coarse.shape))


def randomise(model, images):
    """Random weights, exact in float32.

    Kernels are small: the variances that normalisation meets are near its epsilon, and a wrong
    epsilon shows. The moving statistics are those of the images, moved by random amounts.
    """
    norms = [l for l in model.layers if isinstance(l, keras.layers.BatchNormalization)]
    for layer in model.layers:
        shapes = [weight.shape for weight in layer.weights]
        if layer in norms:
            size = shapes[0]
            gamma, beta = random.uniform(0.5, 1.5, size), random.normal(0, 0.1, size)
            layer.set_weights([gamma, beta, np.zeros(size), np.ones(size)])
            layer.momentum = 0.0
        elif shapes:
            scale = 1.0 if isinstance(layer, keras.layers.Dense) else 3e-3
            kernel = random.normal(0, scale * np.sqrt(2 / np.prod(shapes[0][:-1])), shapes[0])
            layer.set_weights([kernel] + [random.normal(0, 0.1, shape) for shape in shapes[1:]])
    with torch.no_grad():
        model(images, training=True)
    for layer in norms:
        gamma, beta, mean, variance = layer.get_weights()
        mean = mean + 0.2 * np.sqrt(variance) * random.normal(size=mean.shape)
        variance = variance * random.uniform(0.7, 1.4, mean.shape)
        layer.set_weights([gamma, beta, mean, variance])
    model.set_weights([float32(weight) for weight in model.get_weights()])


def nested(model):
    """The same weights, with the DenseNet as one layer of another model."""
    base = keras.applications.DenseNet121(
        weights=None, include_top=False, pooling="avg", input_shape=(224, 224, 3)
    )
    head = keras.layers.Dense(OUTPUTS, activation="sigmoid", name="findings")
    outer = keras.Sequential([keras.Input((224, 224, 3)), base, keras.layers.Dropout(0.2), head])
    for layer in base.layers:
        if layer.weights:
            layer.set_weights(model.get_layer(layer.name).get_weights())
    head.set_weights(model.get_layer("predictions").get_weights())
    return outer


def write_keras2(model, path):
    """`save_weights("x.h5")` of Keras 2: names with a slash, weights with `:0`."""

    def old(name):
        return name.replace("conv1_", "conv1/", 1) if name in ("conv1_conv", "conv1_bn") else name

    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [old(layer.name).encode() for layer in model.layers]
        file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.2.4"
        for layer in model.layers:
            group = file.create_group(old(layer.name))
            names = [f"{old(layer.name)}/{weight.name}:0" for weight in layer.weights]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, values in zip(names, layer.get_weights()):
                group[name] = values


def script(source, target, *options):
    command = [sys.executable, SCRIPT, source, target, *options]
    return subprocess.run(command, capture_output=True, text=True)


def convert(source, target):
    result = script(source, target)
    require(result.returncode == 0, f"{source.name}: {result.stderr}")
    print(f"{source.name}: {'; '.join(result.stdout.splitlines()).partition(': ')[2]}")
    return load_file(target)


def refuse(title, source, target, part):
    """One line that has `part` in it, exit code 1, nothing written."""
    before = target.read_bytes() if target.exists() else None
    result = script(source, target)
    after = target.read_bytes() if target.exists() else None
    lines = result.stderr.splitlines()
    require(
        result.returncode == 1 and len(lines) == 1 and part in lines[0] and before == after,
        f"not refused well, {title}: {result.returncode} {result.stderr}",
    )
    print(f"refused, {title}: {lines[0].replace(str(source.parent) + '/', '')}")


def check_refusals(folder, weights_only, keras3):
    """Spoils copies of `weights_only` and `keras3`, which the script reads."""
    target = folder / "refused.safetensors"

    def spoilt(source, change):
        path = folder / f"spoilt_{source.name}"
        path.write_bytes(source.read_bytes())
        with h5py.File(path, "r+") as file:
            change(file)
        return path

    def without(name):
        return spoilt(weights_only, lambda file: file.__delitem__(name))

    def extra(file):
        file["normalization/normalization/mean:0"] = np.zeros(3)

    def wide(file):
        name = "pool3_conv/pool3_conv/kernel:0"
        del file[name]
        file[name] = np.zeros((1, 1, 512, 512))

    def negative(file):
        file["bn/bn/moving_variance:0"][7] = -1

    def nameless(file):
        del file["layers/dense/vars"].attrs["name"]

    text = folder / "text.h5"
    text.write_text("no HDF5")
    refuse("no file", folder / "absent.h5", target, "absent.h5")
    refuse("no HDF5", text, target, "text.h5")
    refuse("a layer less", without("conv4_block7_1_bn"), target, "conv4_block7_1_bn")
    refuse("the last block less", without("conv5_block16_2_conv"), target, "conv5_block16_2_conv")
    refuse("a weight less", without("pool2_bn/pool2_bn/beta:0"), target, "pool2_bn")
    refuse("no classifier", without("predictions"), target, "Dense")
    refuse("a layer more", spoilt(weights_only, extra), target, "normalization")
    refuse("another shape", spoilt(weights_only, wide), target, "pool3_conv")
    refuse("negative variance", spoilt(weights_only, negative), target, "`bn`")
    refuse("Keras 3 without names", spoilt(keras3, nameless), target, "layers/dense")
    refuse("an existing output", weights_only, text, "--force")
    result = script(weights_only, text, "--force")
    require(result.returncode == 0 and len(load_file(text)) == 606, "--force does not replace")


def torch_logits(tensors, images, epsilon, dtype):
    model = torchvision.models.densenet121(num_classes=OUTPUTS).to(dtype).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = epsilon
    model.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()}, strict=True)
    with torch.no_grad():
        return model(torch.from_numpy(images).to(dtype)).double().numpy()


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    images = random_images()
    exact = densenet("float64", None)
    randomise(exact, images.astype(np.float64))
    with torch.no_grad():
        logits = exact(images.astype(np.float64), training=False).cpu().numpy()
    require(logits.dtype == np.float64, f"Keras computed in {logits.dtype}")
    variances = np.concatenate(
        [l.get_weights()[3] for l in exact.layers if isinstance(l, keras.layers.BatchNormalization)]
    )
    print(f"Keras {keras.__version__}, h5py {h5py.__version__}, PyTorch {torch.__version__}")
    print(f"variances {variances.min():.1e} to {variances.max():.1e}, "
          f"logits {logits.min():.2f} to {logits.max():.2f}")

    model = densenet("float32", "sigmoid")
    model.set_weights(exact.get_weights())
    model.compile("adam", "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    outer = nested(model)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save(folder / "whole.h5")
        model.save_weights(folder / "keras3.weights.h5")
        write_keras2(model, folder / "keras2.h5")
        outer.save(folder / "nested_whole.h5")
        outer.save_weights(folder / "nested_keras3.weights.h5")
        exact.save(folder / "float64.h5")

        converted = out / "keras.safetensors"
        converted.unlink(missing_ok=True)
        tensors = convert(folder / "whole.h5", converted)
        for path in sorted(set(folder.glob("*.h5")) - {folder / "whole.h5"}):
            other = convert(path, folder / f"{path.stem}.safetensors")
            same = other.keys() == tensors.keys() and all(
                np.array_equal(other[name], tensors[name]) for name in tensors
            )
            require(same, f"{path.name} gives other tensors than whole.h5")
        check_refusals(folder, folder / "keras2.h5", folder / "keras3.weights.h5")

    with safe_open(converted, "np") as file:
        require(file.metadata() == {"norm_epsilon": "1.001e-05"}, f"metadata {file.metadata()}")
    require(all(t.dtype == np.float32 for t in tensors.values()), "not all tensors are float32")

    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    save_file({"images": images, "logits": float32(logits)}, out / "keras_reference.safetensors")
    differences = {}
    for epsilon in KERAS_EPSILON, TORCH_EPSILON:
        for dtype in torch.float64, torch.float32:
            difference = np.abs(torch_logits(tensors, images, epsilon, dtype) - logits).max()
            differences[epsilon, dtype] = difference / np.abs(logits).max()
            print(f"torchvision in {dtype}, epsilon {epsilon}: {differences[epsilon, dtype]:.1e}")
    for dtype in torch.float64, torch.float32:
        require(differences[KERAS_EPSILON, dtype] <= TOLERANCE, "torchvision has other logits")
    require(differences[TORCH_EPSILON, torch.float64] > TOLERANCE, "the epsilon does not show")
    print("ok")


if __name__ == "__main__":
    main()
