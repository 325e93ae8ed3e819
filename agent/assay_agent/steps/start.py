"""start.safetensors: weights and batches that a recording began with, written as they come and read by the next side."""

import hashlib
import json
import mmap
import os
import struct

# torch's type -> safetensors' name of it
TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
         "uint8": "U8", "bool": "BOOL"}
HEADER = 100 << 20  # bytes of a header that are read: safetensors' own limit (MAX_HEADER_SIZE)


class Writer:
    """Tensors, put behind one another into a file beside, until the header is known."""

    def __init__(self, path):
        self.path, self.data = path, open(path + ".data", "w+b")
        self.header, self.at = {}, 0

    def add(self, torch, name, tensor):
        """False where the file's format has no such type."""
        kind = TYPES.get(str(tensor.dtype).replace("torch.", ""))
        if kind is None or tensor.layout != torch.strided:
            return False
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        self.data.write(flat)
        self.header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [self.at, self.at + flat.nbytes]}
        self.at += flat.nbytes
        return True

    def close(self):
        """Write the file whole; the SHA-256 of it."""
        text = json.dumps(self.header).encode()
        text += b" " * (-len(text) % 8)
        sums = hashlib.sha256()
        self.data.seek(0)
        with open(self.path, "wb") as f:
            part = struct.pack("<Q", len(text)) + text
            while part:
                f.write(part)
                sums.update(part)
                part = self.data.read(1 << 20)
            f.flush()
            os.fsync(f.fileno())
        self.data.close()
        os.remove(self.path + ".data")
        return sums.hexdigest()


class Reader:
    """The tensors of such a file. ValueError where it is none."""

    def __init__(self, path):
        size = os.path.getsize(path)
        with open(path, "rb") as f:
            head = f.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
            if not 0 < length <= min(HEADER, size - 8):
                raise ValueError("%s: its header is no safetensors header" % path)
            self.header = json.loads(f.read(length))
            self.map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)  # nothing of it is ever written
            f.seek(0)
            sums = hashlib.sha256()
            for part in iter(lambda: f.read(1 << 20), b""):
                sums.update(part)
        self.sum, self.begin = sums.hexdigest(), 8 + length
        for name, about in self.header.items():
            first, last = about["data_offsets"]
            if not 0 <= first <= last <= size - self.begin:
                raise ValueError("%s: %s lies outside the file" % (path, name))

    def names(self, below):
        return [name for name in self.header if name.startswith(below)]

    def tensor(self, torch, name):
        """A tensor on the CPU, over the file's bytes; None where the file has no such name."""
        about = self.header.get(name)
        if about is None:
            return None
        kind = next(k for k, v in TYPES.items() if v == about["dtype"])
        dtype, (first, last) = getattr(torch, kind), about["data_offsets"]
        if first == last:
            return torch.empty(about["shape"], dtype=dtype, device="cpu")
        raw = torch.frombuffer(self.map, dtype=torch.uint8, count=last - first, offset=self.begin + first)
        return raw.clone().view(dtype).reshape(about["shape"])  # a copy: the file does not align its tensors


def moved(torch, tensor, seed):
    """A float tensor with each element other than 0 moved by one unit in the last place, up or down as a generator of its own says."""
    if not tensor.is_floating_point():
        return tensor
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    generator = torch.Generator("cpu").manual_seed(seed)
    flat = tensor.contiguous().reshape(-1)
    step = torch.randint(0, 2, flat.shape, generator=generator, device="cpu") * 2 - 1
    bits = flat.view(whole)
    out = (bits + step.to(whole)).view(tensor.dtype)
    return torch.where(torch.isfinite(flat) & torch.isfinite(out) & (flat != 0), out, flat).reshape(tensor.shape)
