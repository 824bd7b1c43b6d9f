"""PyTorch's DataLoader, for the bench of the loader (datasets/benches/loader.rs).

    loader.py FOLDER SIZE WORKERS pil|torchvision

Makes batches of 16 of the PNGs in FOLDER: 8-bit grey of SIZE by SIZE pixels, bilinear with
anti-aliasing. After one epoch, which starts the workers, it prints the number of images and the
mean of all their grey values. For each line that it then reads it runs one epoch and prints the
number of images and the seconds that the epoch took.

Tried in turn over 7 rounds, none of these was faster by more than 6 % in the median, less than the
spread of the rounds: 4 batches ahead instead of 2, workers from a fork server, 2 threads in the
main process, AVX2 instead of AVX-512 kernels, reading by torchvision's `decode_image(path)` or from
`io.BytesIO`, resizing by `interpolate` on 8 bit, Pillow's `reducing_gap=2`. (`Image.draft` is for
JPEG only, pinned memory for GPUs only.)
"""

import pathlib
import sys
import time
import warnings

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

BATCH = 16


def pil(path, size):
    with Image.open(path) as image:
        grey = image.convert("L").resize((size, size), Image.Resampling.BILINEAR)
    # A copy: a tensor may not be of memory that cannot be written.
    return torch.from_numpy(numpy.array(grey))[None]


def torchvision(path, size):
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms.v2.functional import resize

    grey = decode_image(read_file(path), ImageReadMode.GRAY)
    return resize(grey, [size, size], antialias=True)


DECODERS = {"pil": pil, "torchvision": torchvision}


class Pngs(Dataset):
    def __init__(self, folder, size, decode):
        self.paths = sorted(str(path) for path in pathlib.Path(folder).glob("*.png"))
        self.size = size
        self.decode = decode

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.decode(self.paths[index], self.size)


def main(folder, size, workers, decoder):
    # torchvision says with every file that its decoders will move to another package.
    warnings.filterwarnings("ignore")
    # The workers do the work, and each of them has one thread anyhow.
    torch.set_num_threads(1)
    loader = DataLoader(
        Pngs(folder, int(size), DECODERS[decoder]),
        batch_size=BATCH,
        num_workers=int(workers),
        persistent_workers=True,
        prefetch_factor=2,
    )
    images = grey = 0
    for batch in loader:
        images += len(batch)
        grey += batch.double().mean().item() * len(batch)
    print(images, grey / images, flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        images = sum(len(batch) for batch in loader)
        print(images, time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[4] not in DECODERS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
