"""Images moved by Pillow, for tests/augmentation.rs.

    affine_pil.py IMAGE FLIP,ROTATION,RIGHT,DOWN,SCALE... > pixels
        All pixels of the grey IMAGE, one byte each, row by row, once for each list. About the
        centre of the image, in this order: mirrored, left for right, if FLIP is 1; scaled by the
        factor SCALE; rotated by ROTATION degrees counter-clockwise; moved by RIGHT and DOWN pixels.
        What lies outside is black.

Pillow interpolates in floating point here (mode F): of 8-bit images it drops the fraction, and the
tests want it rounded.
"""

import sys

import numpy
from PIL import Image


def shift(right, down):
    return numpy.array([[1, 0, right], [0, 1, down], [0, 0, 1]])


def move(image, flip, rotation, right, down, scale):
    if scale == 1:
        # Pillow's own rotation, so that the matrices below are not alone in saying which way.
        if flip:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return image.rotate(rotation, Image.Resampling.BILINEAR, translate=(right, down))
    width, height = image.size
    angle = numpy.deg2rad(rotation)
    # Down is positive.
    rotate = numpy.array(
        [
            [numpy.cos(angle), numpy.sin(angle), 0],
            [-numpy.sin(angle), numpy.cos(angle), 0],
            [0, 0, 1],
        ]
    )
    forward = (
        shift(right, down)
        @ shift(width / 2, height / 2)
        @ rotate
        @ numpy.diag([scale, scale, 1])
        @ numpy.diag([-1 if flip else 1, 1, 1])
        @ shift(-width / 2, -height / 2)
    )
    coefficients = numpy.linalg.inv(forward)[:2].ravel().tolist()
    return image.transform(
        image.size, Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR
    )


def main(path, *lists):
    with Image.open(path) as opened:
        image = opened.convert("F")
    for values in lists:
        moved = move(image, *map(float, values.split(",")))
        rounded = numpy.floor(numpy.asarray(moved) + 0.5).astype(numpy.uint8)
        sys.stdout.buffer.write(rounded.tobytes())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
