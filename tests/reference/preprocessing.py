"""Writes what Pillow and torchvision make of real X-rays: `python tests/reference/preprocessing.py FOLDER OUT`.

Every PNG in FOLDER, by its name, as float32 [3, 224, 224] in OUT/preprocessing.safetensors: converted to
RGB, resized, scaled to [0, 1] and normalised with ImageNet's mean and deviation. These are pixels of
the X-rays, so OUT is not committed.
"""

import sys
from pathlib import Path

from PIL import Image
from safetensors.torch import save_file
from torchvision import transforms


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: preprocessing.py FOLDER OUT")
    folder, out = map(Path, sys.argv[1:])
    prepare = transforms.Compose([
        transforms.Resize((224, 224)),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    paths = sorted(folder.glob("*.png"))
    if not paths:
        sys.exit(f"{folder}: has no PNG file")
    tensors = {path.name: prepare(Image.open(path).convert("RGB")) for path in paths}
    save_file(tensors, out / "preprocessing.safetensors")
    print(f"preprocessing: {len(tensors)} images")


if __name__ == "__main__":
    main()
