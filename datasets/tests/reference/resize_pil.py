"""Reference data of Pillow's resizing, for tests/pillow.rs.

    resize_pil.py reference FOLDER SIZE > resize_SIZE.csv
        Mean, standard deviation and 64 sampled pixels of every PNG in FOLDER, converted to grey and
        resized to SIZE by SIZE. The columns of samples are named by the pixel's position, row * SIZE
        + column.
    resize_pil.py pixels SIZE IMAGE... > pixels
        All pixels of the images, one byte each, row by row.
    resize_pil.py crops SHORT_SIDE SIZE IMAGE... > pixels
        The same of the centre SIZE by SIZE of the images, whose shorter side is SHORT_SIDE: what
        torchvision's Resize(SHORT_SIDE) and CenterCrop(SIZE) do.
"""

import csv
import pathlib
import sys

import numpy
from PIL import Image


def resize(path, size):
    with Image.open(path) as image:
        grey = image.convert("L")
        return numpy.asarray(grey.resize((size, size), Image.Resampling.BILINEAR))


def crop(path, short_side, size):
    with Image.open(path) as image:
        grey = image.convert("L")
    sides = [int(short_side * side / min(grey.size)) for side in grey.size]
    left, top = (int(round((side - size) / 2.0)) for side in sides)
    resized = grey.resize(sides, Image.Resampling.BILINEAR)
    return numpy.asarray(resized.crop((left, top, left + size, top + size)))


def reference(folder, size):
    positions = numpy.random.default_rng(size).choice(size * size, 64, replace=False)
    positions.sort()
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["image", "mean", "standard_deviation", *positions])
    for path in sorted(pathlib.Path(folder).glob("*.png")):
        pixels = resize(path, size)
        row = [path.name, f"{pixels.mean():.4f}", f"{pixels.std():.4f}"]
        table.writerow(row + pixels.reshape(-1)[positions].tolist())


def pixels(size, images):
    for path in images:
        sys.stdout.buffer.write(resize(path, size).tobytes())


def crops(short_side, size, images):
    for path in images:
        sys.stdout.buffer.write(crop(path, short_side, size).tobytes())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["reference", folder, size]:
            reference(folder, int(size))
        case ["pixels", size, *images]:
            pixels(int(size), images)
        case ["crops", short_side, size, *images]:
            crops(int(short_side), int(size), images)
        case _:
            sys.exit(__doc__)
