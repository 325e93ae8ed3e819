"""What the three sides of the live test share. A net is a file of weights and NAME.npz, which holds an input `x` and the
output `y` that the framework which made it gives, channels first.

    python SIDE.py make FOLDER            # writes what this framework makes
    python SIDE.py check FOLDER NAME=FILE…  # loads each FILE strictly; {NAME: largest difference over largest output}
"""
import json
import os
import sys

import numpy


def last(x):
    """Channels last."""
    return numpy.moveaxis(x, 1, -1) if x.ndim > 2 else x


def first(x):
    """Channels first."""
    return numpy.moveaxis(x, -1, 1) if x.ndim > 2 else x


def run(made, load):
    """made gives (name, write(path without ending), x, y) of each net; load(name, file, x) an output."""
    what, folder, *files = sys.argv[1:]
    if what == "make":
        for name, write, x, y in made():
            write(os.path.join(folder, name))
            numpy.savez(os.path.join(folder, name + ".npz"), x=x, y=y)
        return
    worst = {}
    for name, path in (f.split("=", 1) for f in files):
        kept = numpy.load(os.path.join(folder, name.split("+")[0] + ".npz"))
        y = numpy.asarray(load(name.split("+")[0], path, kept["x"]))
        assert y.shape == kept["y"].shape, (name, y.shape, kept["y"].shape)
        worst[name] = float(abs(y - kept["y"]).max() / abs(kept["y"]).max())
    print(json.dumps(worst))
