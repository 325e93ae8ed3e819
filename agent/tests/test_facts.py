"""Each fact's smallest call on the double: it meets the fact, and the call beside it does not (tools/double/calls.py).
The rows' sources are the oracle: their texts were read in the wheels."""

import os
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "tools", "double"))


def test_smallest_calls():
    pytest.importorskip("tomllib")
    import calls
    said = calls.run(list(calls.rows()))
    assert len(said) > 10
    assert not {name: problem for name, problem in said.items() if problem}
