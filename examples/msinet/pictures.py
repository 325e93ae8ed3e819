"""Pictures and maps for MSI-Net, as arrays [N, height, width, channels] of 0 to 255: drawn ones, and those of files."""

import os

import numpy as np

PAD = 126  # grey around a picture of another form than the net's; around a map it is 0


def drawn(n=1, height=None, width=None, seed=20):
    """Pictures of bright spots and noise, and the maps that say where the spots are; of 48 × 80, or as MSINET_SIZE says."""
    if height is None:
        height, width = map(int, os.environ.get("MSINET_SIZE", "48x80").split("x"))
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    images = random.uniform(0, 120, (n, height, width, 3))
    maps = np.zeros((n, height, width, 1))
    for i in range(n):
        for _ in range(3):
            cy, cx, r = random.uniform(0, height), random.uniform(0, width), random.uniform(0.05, 0.15) * width
            spot = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * r * r))
            images[i] += 120 * spot[..., None] * random.uniform(0.5, 1, 3)
            maps[i, :, :, 0] += spot
        maps[i] *= 255 / maps[i].max()
    return images.clip(0, 255).astype(np.float32), maps.astype(np.float32)


def matrix(own, wanted, shrinks):
    """[wanted, own]: what makes of a line of own pixels one of wanted, as TensorFlow 1's resize_area (where a side
    shrinks) and resize_bicubic do with align_corners=True. Pillow's BOX and BICUBIC are others."""
    scale = (own - 1) / (wanted - 1) if wanted > 1 else own / wanted
    made = np.zeros((wanted, own))
    for y in range(wanted):
        if shrinks:  # the mean of what lies under the pixel; the edge is repeated
            for i in range(int(y * scale), int(np.ceil((y + 1) * scale))):
                made[y, min(i, own - 1)] += (min(i + 1, (y + 1) * scale) - max(i, y * scale)) / scale
        else:  # Keys's cubic, a = -0.75; distances in steps of 1/1024
            place = np.float32(y) * np.float32(scale)
            at = min(int(place), own - 1)
            d = float(np.rint((place - np.float32(at)) * 1024)) / 1024
            for i, x in ((at - 1, 1 + d), (at, d), (at + 1, 1 - d), (at + 2, 2 - d)):
                weight = (1.25 * x - 2.25) * x * x + 1 if x <= 1 else ((-0.75 * x + 3.75) * x - 6) * x + 3
                made[y, min(max(i, 0), own - 1)] += weight
    return made


def resized(array, height, width):
    """An array [height, width, channels] in another size, 0 to 255."""
    shrinks = height < array.shape[0] or width < array.shape[1]
    high, wide = matrix(array.shape[0], height, shrinks), matrix(array.shape[1], width, shrinks)
    return np.einsum("yh,hwc,xw->yxc", high, array, wide, optimize=True).clip(0, 255)


def read(path, height=240, width=320):
    """A picture of a file for the net, as the original puts it there, and the height and width of its own."""
    from PIL import Image  # pip install pillow

    own = np.asarray(Image.open(path).convert("RGB"), np.float64)
    ratio = min(height / own.shape[0], width / own.shape[1])
    size = max(round(own.shape[0] * ratio), 1), max(round(own.shape[1] * ratio), 1)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    image = np.full((1, height, width, 3), PAD, np.float32)
    image[0, top : top + size[0], left : left + size[1]] = resized(own, *size)
    return image, own.shape[:2]


def write(path, saliency, size):
    """A map [height, width] of 0 to 1 as a picture of grey: made to cover the size of the picture that was read, and cut to it."""
    from PIL import Image

    saliency = np.asarray(saliency, np.float64)
    ratio = max(size[0] / saliency.shape[0], size[1] / saliency.shape[1])
    cover = [max(round(n * ratio), m) for n, m in zip(saliency.shape, size)]
    grey = resized(255 * saliency[:, :, None], *cover)[:, :, 0].round().astype(np.uint8)
    top, left = (cover[0] - size[0]) // 2, (cover[1] - size[1]) // 2
    Image.fromarray(grey[top : top + size[0], left : left + size[1]]).save(path)
