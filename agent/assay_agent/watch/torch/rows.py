"""The rows of a data set, asked for beside the training: how long each is, with nothing left behind of the asking."""

import contextlib
import os
import random
import sys
import warnings

ROWS = 20_000  # that are asked for, of those there are


def elements(torch, thing, depth=0):
    """Elements of the largest tensor, array, image, list of numbers or text in a row; 0: it has none."""
    if isinstance(thing, torch.Tensor):
        return thing.numel()
    if isinstance(thing, (str, bytes)):
        return len(thing)
    if isinstance(thing, (list, tuple, dict)):
        if isinstance(thing, (list, tuple)) and thing and isinstance(thing[0], (int, float)):
            return len(thing)
        parts = list(thing.values()) if isinstance(thing, dict) else thing
        return max((elements(torch, t, depth + 1) for t in parts[:1000]), default=0) if depth < 4 else 0
    size = getattr(thing, "size", None)  # of NumPy's arrays a number, of PIL's images two
    if isinstance(size, tuple) and len(size) == 2:
        return size[0] * size[1]
    return size if isinstance(size, int) else 0


@contextlib.contextmanager
def unheard(torch):
    """What the data's own code prints, logs and warns of is not said, and what it draws at random is put back."""
    logging, numpy = sys.modules["logging"], sys.modules.get("numpy.random")  # which torch has imported
    kept = random.getstate(), torch.get_rng_state(), numpy.get_state() if numpy else None
    before = logging.root.manager.disable
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(before)
            random.setstate(kept[0])
            torch.set_rng_state(kept[1])
            if kept[2] is not None:
                numpy.set_state(kept[2])
