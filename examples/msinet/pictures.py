"""Pictures and maps for MSI-Net, as arrays [N, height, width, channels] of 0 to 255: drawn ones, and those of files."""

import numpy as np

PAD = 126  # grey around a picture of another form than the net's; around a map it is 0


def drawn(n=1, height=48, width=80, seed=20):
    """Pictures of bright spots and noise, and the maps that say where the spots are."""
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


def read(path, height=240, width=320):
    """A picture of a file for the net, and the frame that it fills there: (left, top, right, bottom), and its own size."""
    from PIL import Image  # pip install pillow

    picture = Image.open(path).convert("RGB")
    own = picture.size
    ratio = min(height / own[1], width / own[0])
    size = max(round(own[0] * ratio), 1), max(round(own[1] * ratio), 1)
    picture = picture.resize(size, Image.BOX if ratio < 1 else Image.BICUBIC)
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    image = np.full((1, height, width, 3), PAD, np.float32)
    image[0, top : top + size[1], left : left + size[0]] = np.asarray(picture)
    return image, (left, top, left + size[0], top + size[1]), own


def write(path, saliency, frame, size):
    """A map [height, width] of 0 to 1 as a picture of grey, cut to the frame and of the size of the picture that was read."""
    from PIL import Image

    grey = Image.fromarray((np.asarray(saliency) * 255).round().astype(np.uint8))
    grey.crop(frame).resize(size, Image.BICUBIC).save(path)
