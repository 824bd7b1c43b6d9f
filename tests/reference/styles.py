"""Writes one set of seeded weights (seed 3) as checkpoints of every kind that users have, into the folder OUT.

    python tests/reference/styles.py OUT               DenseNet-121 and ResNet-50
    python tests/reference/styles.py OUT --committed   a tiny DenseNet, to be committed:
                                                       OUT = burn-chexnet/tests/data/pytorch/styles

Where torchvision, MONAI or torchxrayvision has a class for the style, the weights were loaded into that
class, strictly, and what is written is its own. Nothing is downloaded. 14 outputs, XRV's models 18.
Made with torch 2.15.0, torchvision 0.29.2, monai 1.6.1 and torchxrayvision 1.5.7.
"""

import argparse
import os
import re
import tempfile
from pathlib import Path
from unittest import mock

import torch
import torchvision
import torchxrayvision
from monai.networks.nets import DenseNet as MonaiDenseNet
from safetensors.torch import save_file

import seeded

SEED = 3
LABELS = 14
XRV_LABELS = len(torchxrayvision.datasets.default_pathologies)
FULL = {"growth_rate": 32, "block_config": (6, 12, 24, 16), "num_init_features": 64, "bn_size": 4}
TINY = {"growth_rate": 4, "block_config": (2, 2), "num_init_features": 8, "bn_size": 2}


class Wrapped(torch.nn.Module):
    """The model of arnoweng and zoogzog."""

    def __init__(self, size):
        super().__init__()
        self.densenet121 = torchvision.models.DenseNet(**size, num_classes=LABELS)
        head = torch.nn.Linear(self.densenet121.classifier.in_features, LABELS)
        self.densenet121.classifier = torch.nn.Sequential(head, torch.nn.Sigmoid())

    def forward(self, images):
        return self.densenet121(images)


def filled(size, outputs=LABELS):
    return seeded.fill(torchvision.models.DenseNet(**size, num_classes=outputs), SEED)


def renamed(state, pattern, replacement):
    return {re.sub(pattern, replacement, key): tensor for key, tensor in state.items()}


def old_keys(state):
    """Keys of PyTorch before 0.4, which counted no batches."""
    state = {key: tensor for key, tensor in state.items() if not key.endswith("num_batches_tracked")}
    return renamed(state, r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.")


def loaded(model, state):
    model.load_state_dict(state, strict=True)
    return model


def wrapped(size):
    """State of the wrapper under DataParallel, and that of Adam after a step."""
    model = torch.nn.DataParallel(Wrapped(size))
    # Adam for the head alone keeps the tiny files small.
    trained = model if size is FULL else model.module.densenet121.classifier
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-4, weight_decay=1e-5)
    images = seeded.images("images", [2, 3, 64, 64], SEED)
    model(images).sum().backward()
    optimizer.step()
    state = renamed(filled(size).state_dict(), r"^classifier", "classifier.0")
    loaded(model, {f"module.densenet121.{key}": tensor for key, tensor in state.items()})
    return model.state_dict(), optimizer.state_dict()


def monai(size):
    names = size | {"init_features": size["num_init_features"]}
    del names["num_init_features"]
    model = MonaiDenseNet(spatial_dims=2, in_channels=3, out_channels=LABELS, **names)
    state = renamed(filled(size).state_dict(), r"(denselayer\d+)\.", r"\1.layers.")
    return loaded(model, renamed(state, r"^classifier", "class_layers.out"))


def xrv(size):
    """A model that has no thresholds, like the pickled ones that torchxrayvision publishes."""
    return seeded.fill(torchxrayvision.models.DenseNet(**size, num_classes=XRV_LABELS, in_channels=1), SEED)


def xrv_state(size):
    """State of a model that torchxrayvision has loaded: with thresholds."""
    model = xrv(size)
    model.op_threshs = torch.tensor(torchxrayvision.models.model_urls["all"]["op_threshs"])
    return model.state_dict()


def xrv_resnet():
    """torchxrayvision's class takes its weights from the cache, where it looks before it downloads."""
    name = "resnet50-res512-all"
    model = torchvision.models.resnet50(num_classes=XRV_LABELS)
    model.conv1 = torch.nn.Conv2d(1, 64, kernel_size=7, stride=2, padding=3, bias=False)
    with tempfile.TemporaryDirectory() as cache:
        file = os.path.basename(torchxrayvision.models.model_urls[name]["weights_url"])
        torch.save(seeded.fill(model, SEED).state_dict(), Path(cache) / file)
        return torchxrayvision.models.ResNet(weights=name, cache_dir=cache)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--committed", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    size = TINY if options.committed else FULL
    written = []

    def save(name, content, legacy=False):
        torch.save(content, options.out / name, _use_new_zipfile_serialization=not legacy)
        written.append(name)

    def save_safetensors(name, state):
        save_file(state, options.out / name)
        (options.out / name).chmod(0o644)
        written.append(name)

    model = filled(size)
    state = model.state_dict()
    save("torchvision.pth", state)
    outputs = LABELS if options.committed else 1000
    save("torchvision_old_keys.pth", old_keys(filled(size, outputs).state_dict()), legacy=True)

    module, optimizer = wrapped(size)
    wrapper = {"epoch": 1, "state_dict": module, "best_loss": 0.1, "optimizer": optimizer}
    save("zoogzog.pth.tar", wrapper)
    save("arnoweng.pth.tar", wrapper | {"state_dict": old_keys(module)}, legacy=True)

    save("model_key.pth", {"model": state, "loss": 0.25}, legacy=True)
    lightning = {f"model.{key}": tensor for key, tensor in state.items()}
    save("lightning.ckpt", {
        "epoch": 1,
        "global_step": 10,
        "pytorch-lightning_version": "2.0",
        "state_dict": lightning,
        "hyper_parameters": {"learning_rate": 1e-4, "labels": LABELS},
    })

    save("monai.pth", monai(size).state_dict(), legacy=True)
    save("xrv.pth", xrv_state(size))
    # torchxrayvision's files are legacy ones.
    save("xrv_module.pt", xrv(size), legacy=not options.committed)

    save("module.pt", model)
    # A legacy module holds the source code of its classes, which is not ours to hand on.
    with mock.patch("inspect.getsourcelines", lambda cls: ([f"class {cls.__name__}: ...\n"], 1)):
        save("module_legacy.pt", model, legacy=True)

    save_safetensors("predictions.safetensors", renamed(state, "^classifier", "predictions"))
    save_safetensors("fc_head.safetensors", renamed(state, "^classifier", "fc"))

    # Each of these keeps num_batches_tracked as int64, as PyTorch's Module.half() does.
    save_safetensors("half.safetensors", filled(size).half().state_dict())
    save("bfloat16.pth", filled(size).bfloat16().state_dict())

    if not options.committed:
        save("float64.pth", filled(size).double().state_dict())
        resnet = seeded.fill(torchvision.models.resnet50(num_classes=LABELS), SEED)
        save("resnet50.pth", resnet.state_dict())
        save("resnet50_module_prefix.pth", torch.nn.DataParallel(resnet).state_dict())
        save("xrv_resnet.pth", xrv_resnet().state_dict())

    for name in written:
        print(f"{(options.out / name).stat().st_size:>12} {name}")
    print(f"{sum((options.out / name).stat().st_size for name in written):>12} in all")
    print("labels of torchxrayvision:", ", ".join(torchxrayvision.datasets.default_pathologies))


if __name__ == "__main__":
    main()
