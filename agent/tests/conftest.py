import json
import os
import subprocess
import sys
import textwrap

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "agent"))
TABLES = os.path.join(ROOT, "internal", "atlas", "tables")


def column(file, series):
    cells = {}
    with open(os.path.join(TABLES, file)) as lines:
        for line in lines:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "operator":
                at = words.index(series)
            elif words[at] != ".":
                cells[words[0]] = words[at]
    return cells


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory):
    """rehearse(code, release): run code on a double of that release, without the Go side; what it printed. Each run is a process of its own:
    what is put into torch stays there."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("double")

    def run(code, release="2.8.0", vision="0.23", **more):
        series = ".".join(release.split(".")[:2])
        structured = {}
        with open(os.path.join(TABLES, "generated.txt")) as lines:
            for line in lines:
                words = line.split()
                if words[0] != "#" and words[1] == "structured":
                    structured[words[0]] = words[2]
        ops = column("torch.txt", series)
        ops.update(column("torchvision.txt", vision))
        table = folder / (release + ".json")
        table.write_text(json.dumps({"ops": ops, "structured": structured, "lacks": {}, "autocast": column("autocast.txt", series),
                                     "sparse": column("sparse.txt", series), "commit": "0" * 40}))
        settings = {"release": release, "series": [int(n) for n in series.split(".")], "macos": [15, 0], "chip": "m1-16gb", "memory": 16 << 30,
                    "recommended": None, "cores": 8, "chip_name": "Apple M1", "shape_only": False, "table": str(table)}
        settings.update(more)
        script = folder / "script.py"
        script.write_text(textwrap.dedent("""
            import sys
            sys.path.insert(0, %r)
            import torch
            from assay_agent import wire
            from assay_agent.double import install, modes, place
            wire.put = lambda event: None
            install.install(torch, %r)
            def fails(call):
                try:
                    call()
                except Exception as error:
                    print(type(error).__name__, error)
                else:
                    print("no error")
            """) % (os.path.join(ROOT, "agent"), settings) + textwrap.dedent(code))
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="", **more.get("env", {})) if "env" in more else dict(os.environ, CUDA_VISIBLE_DEVICES="")
        done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", str(script)], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
