"""Converts a DenseNet of keras-applications (.h5) to safetensors with torchvision's key names.

    python keras_to_safetensors.py INPUT.h5 OUTPUT.safetensors [--force]

Needs h5py, numpy and safetensors, neither Keras nor TensorFlow. Reads DenseNet-121, -169 and -201
with one Dense layer on top, as in brucechou1983/CheXNet-Keras, from

- a whole model, `model.save("x.h5")` of Keras 2 or 3,
- weights only of Keras 2, `model.save_weights("x.h5")`,
- weights only of Keras 3.6 or later, `model.save_weights("x.weights.h5")`. (Before, it left out the
  layers' names; such a file is refused.)

Layers are found by name, so the DenseNet may be a layer of another model. Kernels become OIHW, the
Dense matrix [out, in], everything float32. The metadata entry `norm_epsilon` holds Keras' epsilon
of batch normalisation, which is not PyTorch's. Every weight of the file is used and every key of
the network is written; otherwise nothing is written, one line says why, and the exit code is 1.
Without --force an existing output is kept. An optimiser's state is left out.
"""

import argparse
import json
import os
import re
import sys
import zipfile

import h5py
import numpy as np
from safetensors.numpy import save

EPSILON = 1.001e-5
GROWTH, BOTTLENECK, FIRST = 32, 128, 64
ARCHITECTURES = {
    "DenseNet-121": (6, 12, 24, 16),
    "DenseNet-169": (6, 12, 32, 32),
    "DenseNet-201": (6, 12, 48, 32),
}
KINDS = {
    "norm": {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    },
    "conv": {"kernel": "weight"},
    "classifier": {"kernel": "weight", "bias": "bias"},
}
# Keras 2 writes conv1/conv, Keras 3 conv1_conv. TensorFlow 1 appends _1, _2, … to a name that its
# session has already.
LAYER = re.compile(
    r"(?<![^/])(conv1[/_](?:conv|bn)|conv[2-5]_block\d+_(?:[01]_bn|[12]_conv)"
    r"|pool[2-4]_(?:bn|conv)|bn)(?:_\d+)?(?![^/])"
)
# Layers without weights that a DenseNet has, or that change nothing in inference.
WEIGHTLESS = set(
    "InputLayer ZeroPadding2D Activation ReLU MaxPooling2D AveragePooling2D Concatenate "
    "GlobalAveragePooling2D Dropout Functional Model Sequential".split()
)


class Refusal(Exception):
    """What the one line on standard error says."""


def stored_weights(file):
    """(path, layer, weight) of every weight of the file, and what it ignores.

    The layer is a path in which the layer's name is one of the parts, or two (conv1/conv).
    """
    ignored = [name for name in ("optimizer_weights", "optimizer") if name in file]
    paths = []

    def visit(path, item):
        if isinstance(item, h5py.Dataset) and path.split("/")[0] not in ignored:
            paths.append(path)

    file.visititems(visit)
    if "model_weights" in file or any(name.startswith("layer_names") for name in file.attrs):
        names = [path.rpartition("/")[::2] for path in paths]
    elif any("/vars/" in path for path in paths):
        names = [keras3_name(file, path) for path in paths]
    else:
        raise Refusal("it has none of the layouts in which Keras saves weights")
    return [(file[path], *name) for path, name in zip(paths, names)], ignored


def keras3_name(file, path):
    """Layer and weight of .../vars/N, which Keras 3 numbers in the order of making."""
    group, _, number = path.rpartition("/")
    name = file[group].attrs.get("name") if group.endswith("vars") else None
    if not isinstance(name, str):
        raise Refusal(
            f"layer `{group}` has no name, as in weights of Keras before 3.6. "
            'Save the whole model with model.save("x.h5") and convert that'
        )
    if LAYER.fullmatch(name) and name.endswith("bn"):
        order = list(KINDS["norm"])
    else:
        order = ["kernel", "bias"]
    return name, order[int(number)] if int(number) < len(order) else f"weight {number}"


def torchvision_layer(name):
    """conv2_block1_0_bn: features.denseblock1.denselayer1.norm1."""
    if name in ("conv1/conv", "conv1/bn"):
        return "features.conv0" if name.endswith("conv") else "features.norm0"
    if name == "bn":
        return "features.norm5"
    if match := re.fullmatch(r"pool(\d)_(bn|conv)", name):
        return f"features.transition{int(match[1]) - 1}.{'norm' if match[2] == 'bn' else 'conv'}"
    block, layer, number, kind = re.fullmatch(r"conv(\d)_block(\d+)_(\d)_(bn|conv)", name).groups()
    last = f"norm{int(number) + 1}" if kind == "bn" else f"conv{number}"
    return f"features.denseblock{int(block) - 1}.denselayer{layer}.{last}"


def layers_of(weights):
    """{Keras name: {weight: dataset}} of the DenseNet, name and weights of the classifier."""
    layers, others = {}, {}
    for dataset, path, weight in weights:
        weight = re.sub(r"(_\d+)?(:\d+)?$", "", weight)
        names = {re.sub("^conv1_", "conv1/", name) for name in LAYER.findall(path)}
        if len(names) > 1:
            raise Refusal(f"`{path}` names two layers of a DenseNet")
        name = names.pop() if names else path.split("/")[-1]
        layer = (layers if LAYER.fullmatch(name) else others).setdefault(name, {})
        if weight in layer:
            raise Refusal(f"layer `{name}` is there twice: more than one DenseNet or classifier")
        layer[weight] = dataset
    if not layers:
        raise Refusal("no layer has a name of keras-applications' DenseNet, such as conv1/conv")
    dense = [n for n, layer in others.items() if "kernel" in layer and layer["kernel"].ndim == 2]
    head = "predictions" if "predictions" in dense else next(iter(dense), None)
    for name in others:
        if name != head:
            raise Refusal(f"layer `{name}` is not part of a DenseNet with one Dense layer on top")
    if head is None:
        raise Refusal("it has no Dense layer on top (include_top=False?)")
    return layers, head, others[head]


def architecture_of(layers):
    """Name and blocks of the smallest network that has all the dense layers."""
    found = [re.fullmatch(r"conv(\d)_block(\d+)_.*", name) for name in layers]
    for title, blocks in ARCHITECTURES.items():
        if all(1 <= int(m[2]) <= blocks[int(m[1]) - 2] for m in found if m):
            return title, blocks
    last = max((m for m in found if m), key=lambda m: int(m[2]))
    raise Refusal(f"layer `{last[0]}` is not in one of {', '.join(ARCHITECTURES)}")


def expected_layers(blocks):
    """Keras name and shape of each layer's weights in PyTorch's order; None is any number."""
    channels = FIRST
    yield "conv1/conv", (channels, None, 7, 7)
    yield "conv1/bn", (channels,)
    for block, count in enumerate(blocks, 2):
        for number in range(1, count + 1):
            name = f"conv{block}_block{number}"
            yield f"{name}_0_bn", (channels,)
            yield f"{name}_1_conv", (BOTTLENECK, channels, 1, 1)
            yield f"{name}_1_bn", (BOTTLENECK,)
            yield f"{name}_2_conv", (GROWTH, BOTTLENECK, 3, 3)
            channels += GROWTH
        if block < 5:
            yield f"pool{block}_bn", (channels,)
            yield f"pool{block}_conv", (channels // 2, channels, 1, 1)
            channels //= 2
    yield "bn", (channels,)
    yield "classifier", (None, channels)


def tensor(name, weight, dataset, shape):
    """The weight in PyTorch's order of axes, checked."""
    title = f"`{weight}` of layer `{name}`"
    axes = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}.get(dataset.ndim, ())
    sizes = [dataset.shape[axis] for axis in axes]
    if len(sizes) != len(shape) or any(n not in (None, size) for n, size in zip(shape, sizes)):
        raise Refusal(f"{title} has the shape {dataset.shape}, which does not fit")
    if dataset.dtype.kind != "f":
        raise Refusal(f"{title} is {dataset.dtype}, not floating point")
    if 0 in sizes or (shape[1:2] == (None,) and sizes[1] not in (1, 3)):
        raise Refusal(f"{title} has the shape {dataset.shape}, which does not fit")
    array = dataset[()].astype(np.float32).transpose(axes)
    if not np.isfinite(array).all() or (weight == "moving_variance" and array.min() < 0):
        raise Refusal(f"{title} has values that are not finite, or negative variances")
    return np.ascontiguousarray(array)


def convert(weights):
    """Tensors by torchvision's keys, name and blocks of the network."""
    layers, head, classifier = layers_of(weights)
    title, blocks = architecture_of(layers)
    layers["classifier"] = classifier
    tensors = {}
    for layer, shape in expected_layers(blocks):
        name = head if layer == "classifier" else layer
        if layer not in layers:
            raise Refusal(f"layer `{name}` of {title} is missing")
        stored = layers.pop(layer)
        target = "classifier" if layer == "classifier" else torchvision_layer(layer)
        kinds = KINDS[re.search("norm|conv|classifier", target.split(".")[-1])[0]]
        if unlike := sorted(stored.keys() ^ kinds.keys()):
            has = "a weight" if unlike[0] in stored else "no weight"
            raise Refusal(f"layer `{name}` has {has} `{unlike[0]}`, unlike that of {title}")
        for weight, key in kinds.items():
            # A bias has the shape of the outputs.
            expected = (len(tensors["classifier.weight"]),) if weight == "bias" else shape
            tensors[f"{target}.{key}"] = tensor(name, weight, stored[weight], expected)
    if layers:
        raise Refusal(f"layer `{next(iter(layers))}` is not part of {title}")
    return tensors, title, blocks


def configured_layers(model):
    """Class and configuration of each layer of a saved model, nested ones too."""
    config = model["config"]
    # Sequential of old Keras has a bare list.
    for layer in config if isinstance(config, list) else config.get("layers", []):
        yield layer["class_name"], layer["config"]
        if "layers" in layer["config"] or isinstance(layer["config"], list):
            yield from configured_layers(layer)


def check_configuration(file):
    """Notes on what a whole model says and weights do not show; refuses another epsilon."""
    notes = []
    model = json.loads(file.attrs.get("model_config", '{"config": []}'))
    for kind, config in configured_layers(model):
        name = config["name"] if "name" in config else kind
        if kind.startswith("BatchNormalization"):
            if abs(config["epsilon"] / EPSILON - 1) > 1e-6:
                raise Refusal(f"layer `{name}` has epsilon {config['epsilon']}, not {EPSILON}")
        elif kind == "Dense":
            if config["activation"] not in ("sigmoid", "linear"):
                notes.append(f"the activation of `{name}` is {config['activation']}, not sigmoid")
        elif kind != "Conv2D" and kind not in WEIGHTLESS:
            notes.append(f"layer `{name}` ({kind}) is not converted")
    return notes


def write(tensors, output):
    """Under another name first: an output is whole or not there."""
    partial = f"{output}.partial"
    try:
        # Not save_file, which gives the file to its owner alone.
        with open(partial, "wb") as file:
            file.write(save(tensors, metadata={"norm_epsilon": f"{EPSILON:.3e}"}))
        os.replace(partial, output)
    except OSError as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise Refusal(f"cannot write {output}: {error.strerror}") from error


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    options = parser.parse_args()
    try:
        if os.path.exists(options.output) and not options.force:
            raise Refusal(f"{options.output} exists; --force replaces it")
        if not os.path.isfile(options.input):
            raise Refusal(f"{options.input}: no such file")
        if os.path.exists(options.output) and os.path.samefile(options.input, options.output):
            raise Refusal("input and output are the same file")
        try:
            with h5py.File(options.input) as file:
                weights, ignored = stored_weights(file)
                notes = check_configuration(file)
                tensors, title, blocks = convert(weights)
        except Refusal as refusal:
            raise Refusal(f"{options.input}: {refusal}") from refusal
        except MemoryError as error:
            raise Refusal(f"{options.input}: it would take more memory than there is") from error
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = f"no HDF5 file of Keras, or a damaged one ({error})"
            if zipfile.is_zipfile(options.input):
                hint = 'a .keras archive, not .h5. Save the model with model.save("x.h5")'
            raise Refusal(f"{options.input}: {hint}") from error
        write(tensors, options.output)
    except (Refusal, OSError) as refusal:
        line = " ".join(str(refusal).split())
        sys.exit(f"keras_to_safetensors: {line}")
    outputs = len(tensors["classifier.bias"])
    print(
        f"{options.output}: {title}, {len(tensors)} tensors, "
        f"blocks {', '.join(map(str, blocks))}, {outputs} outputs"
    )
    for name in ignored:
        print(f"ignored: the optimiser's state ({name})")
    for note in notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main()
