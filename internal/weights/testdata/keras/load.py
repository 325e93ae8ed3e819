"""Loads a .weights.h5 into the model of record.py with Keras, says what h5py finds in it, and what Keras has then.

    python load.py FILE
"""

import hashlib
import json
import sys

import h5py
import keras
import numpy as np

from record import build, listed

model = build(keras)
for weight in model.weights:
    weight.assign(np.zeros(weight.shape))
model.load_weights(sys.argv[1])
sums = {w.path: hashlib.sha256(np.ascontiguousarray(w.numpy()).tobytes()).hexdigest() for w in model.weights}
names = {}
with h5py.File(sys.argv[1]) as f:
    f.visititems(lambda name, o: names.update({name: o.attrs["name"]}) if "name" in o.attrs else None)
print(json.dumps({"weights": sums, "listed": listed(sys.argv[1]), "names": names, "keras": keras.__version__}))
