"""Writes the files of this folder with Keras 3 and Keras 2, and what h5py reads from them into expected.json.

    KERAS_BACKEND=jax python record.py         keras 3.15.1
    TF_USE_LEGACY_KERAS=1 python record.py 2   tf_keras, which is Keras 2's code
"""

import hashlib
import json
import os
import sys
import zipfile

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def build(keras, v2=False):
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((6, 6, 3)), layers.Conv2D(2, 3, name="c1"), layers.BatchNormalization(name="bn"),
         layers.Conv2D(2, 1, name="c0"), layers.Flatten(name="flat"), layers.Dense(2, name="head")], name="small")
    rng = np.random.default_rng(0)
    model.set_weights([rng.standard_normal(w.shape).astype("f4") for w in model.get_weights()])
    return model


def listed(path):
    found = {}

    def visit(name, o):
        if isinstance(o, h5py.Dataset):
            data = np.ascontiguousarray(o[()])
            found[name] = {"shape": list(o.shape), "sha256": hashlib.sha256(data.tobytes()).hexdigest()}

    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as z, z.open("model.weights.h5") as inner, h5py.File(inner) as f:
            f.visititems(visit)
    else:
        with h5py.File(path) as f:
            f.visititems(visit)
    return found


def main():
    if sys.argv[1:] == ["2"]:
        import tf_keras as keras

        model = build(keras)
        model.save(os.path.join(HERE, "keras2.h5"), include_optimizer=False)
        model.save_weights(os.path.join(HERE, "keras2_weights.h5"))
        model.save_weights(os.path.join(HERE, "keras2.weights.h5"))
        names = ["keras2.h5", "keras2_weights.h5", "keras2.weights.h5"]
    else:
        import keras

        model = build(keras)
        model.save(os.path.join(HERE, "keras3.keras"))
        model.save(os.path.join(HERE, "keras3.h5"), include_optimizer=False)
        model.save_weights(os.path.join(HERE, "keras3.weights.h5"))
        # some 300 bytes a file, of a model whose variables have 8 to 216; the same weights as keras3.weights.h5
        model.save_weights(os.path.join(HERE, "sharded.weights.json"), max_shard_size=3e-7)
        with zipfile.ZipFile(os.path.join(HERE, "keras3.keras")) as z, \
                zipfile.ZipFile(os.path.join(HERE, "packed.keras"), "w", zipfile.ZIP_DEFLATED) as packed:
            for name in z.namelist():
                packed.writestr(name, z.read(name))
        keras.config.set_dtype_policy("bfloat16")
        half = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3, name="half")])
        half.save_weights(os.path.join(HERE, "bfloat16.weights.h5"))
        names = ["keras3.keras", "keras3.h5", "keras3.weights.h5", "packed.keras", "bfloat16.weights.h5"]
    path = os.path.join(HERE, "expected.json")
    told = json.load(open(path)) if os.path.exists(path) else {}
    told.update({name: listed(os.path.join(HERE, name)) for name in names})
    told["versions " + names[0]] = {"keras": keras.__version__, "h5py": h5py.version.version}
    with open(path, "w") as out:
        json.dump(told, out, indent=0, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
