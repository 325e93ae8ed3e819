import json

import pytest

from assay_agent import notebook


@pytest.mark.parametrize(
    "source, left, passed",
    [
        ("x = 1\n!ls -l\nprint(x)", "x = 1\npass\nprint(x)", ["!ls -l"]),
        ("%matplotlib inline", "pass", ["%matplotlib inline"]),
        ("if x:\n    !pip install y\nz = 2", "if x:\n    pass\nz = 2", ["!pip install y"]),
        ("%%bash\nrm -rf /tmp/x", "", ["%%bash"]),
        ("%%time\ny = 3", "\ny = 3", ["%%time"]),
        ("a = b % c\nd = '''\n%not a magic\n'''", "a = b % c\nd = '''\n%not a magic\n'''", []),
        ("model?", "pass", ["model?"]),
    ],
)
def test_magics(source, left, passed):
    assert notebook.without_magics(source) == (left, passed)


def test_cells(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# t"}, {"cell_type": "code", "source": ["a\n", "b"]}]}))
    assert list(notebook.cells(str(path))) == [(2, "a\nb")]
    for bad in ("[]", "{}", '{"cells": 3}', "no"):
        path.write_text(bad)
        with pytest.raises(ValueError):
            list(notebook.cells(str(path)))
