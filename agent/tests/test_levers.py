"""Levers in unmodified scripts: what the script itself sees of them, and what PyTorch without them makes of the same."""

import pytest

pytest.importorskip("torch")

HEAD = """
    import torch
    from torch import nn
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, TensorDataset
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(100, 4), torch.arange(100) % 3)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def train(loader, seen):
        for x, y in loader:
            seen.append(len(x))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    def test(loader, seen):
        with torch.no_grad():
            for x, y in loader:
                seen.append(len(x))
                model(x)
"""


@pytest.fixture
def pull(watch):
    """pull(code, **levers): the code, after HEAD, with those levers; Watched, whose levers are the answers without places."""

    def run(code, head=HEAD, **levers):
        seen = watch(head + code, levers=levers)
        assert seen.all("trouble") == []
        seen.levers = [{k: v for k, v in e.items() if k not in ("ev", "where")} for e in seen.all("lever")]
        seen.places = [e.get("where", "").replace(str(seen.folder) + "/", "") for e in seen.all("lever")]
        return seen

    return run


def test_batch_of_the_training_loader_alone(pull):
    seen = pull("""
    fits = DataLoader(data, batch_size=10, shuffle=True)
    checks = DataLoader(data, batch_size=50)
    print(fits.batch_size, len(fits), checks.batch_size, len(checks))
    for epoch in range(2):
        seen, tested = [], []
        train(fits, seen)
        test(checks, tested)
        print(seen, tested)
    """, batch=32)
    assert seen.printed == ["32 4 50 2"] + ["[32, 32, 32, 4] [50, 50]"] * 2
    assert seen.levers == [{"lever": "batch", "done": True, "from": 10, "to": 32}]
    lines = (seen.folder / "script.py").read_text().splitlines()
    assert seen.places == ["DataLoader at script.py:%d" % (1 + lines.index(next(n for n in lines if "fits =" in n)))]
    assert {e["batch"] for e in seen.all("loader")} == {32, 50}


def test_batch_where_no_loader_shuffles(pull):
    """The first; where that is read without gradients, the one that is read with them. It is given back then."""
    seen = pull("""
    checks, fits = DataLoader(data, batch_size=50), DataLoader(data, batch_size=10)
    tested, seen, again = [], [], []
    test(checks, tested)
    train(fits, seen)
    test(checks, again)
    print(tested, seen, again)
    """, batch=40)
    assert seen.printed == ["[50, 50] [40, 40, 20] [50, 50]"]
    assert seen.levers == [{"lever": "batch", "done": True, "from": 10, "to": 40}]


@pytest.mark.parametrize("loader, given", [
    ("DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 10, True))", [32, 32, 32]),
    ("DataLoader(data, batch_size=10, sampler=RandomSampler(data), drop_last=True)", [32, 32, 32]),
    ("DataLoader(data, 10, True, num_workers=1, persistent_workers=True)", [32, 32, 32, 4]),
    ("DataLoader(Stream(), batch_size=10)", [32, 32, 6]),
    ("Mine(data, rows=10)", [32, 32, 32, 4]),
])
def test_batch_of_each_form_of_loader(pull, loader, given):
    seen = pull("""
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([data[i] for i in range(70)])
    class Mine(DataLoader):
        def __init__(self, data, rows):
            super().__init__(data, rows, shuffle=True)
    seen = []
    train(%s, seen)
    print(seen)
    """ % loader, batch=32)
    assert seen.printed == [str(given)]
    assert seen.levers == [{"lever": "batch", "done": True, "from": 10, "to": 32}]


@pytest.mark.parametrize("loader, given, why", [
    ("DataLoader(data, batch_sampler=Mine())", [3, 3], "its batch sampler, Mine, puts batches together itself"),
    ("DataLoader(TensorDataset(data.tensors[0].view(10, 10, 4), data.tensors[1].view(10, 10)), batch_size=None)",
     [10] * 10, "batch_size=None: the data set makes its batches itself"),
    ("DataLoader(data, batch_size=10, shuffle=True)", [10] * 10, "the data has 100 rows, fewer than a batch of 128"),
    ("DataLoader(data, batch_size=10, shuffle=True, drop_last=True)", [10] * 10,
     "the data has 100 rows, fewer than a batch of 128"),
    ("[data[:7], data[:9]]", [7, 9], "no DataLoader was read with gradients on: the script makes its batches itself, "
                                     "or did not come to train"),
])
def test_batch_that_cannot_be_changed(pull, loader, given, why):
    """It says why, and the script runs as it was written."""
    seen = pull("""
    class Mine:
        def __iter__(self):
            return iter([[0, 1, 2], [3, 4, 5]])
    seen = []
    train(%s, seen)
    print(seen)
    """ % loader, batch=128)
    assert seen.printed == [str(given)]
    assert seen.levers == [{"lever": "batch", "done": False, "why": why}]


def test_without_levers_nothing_of_them_is_imported(watch):
    code = HEAD + """
    train(DataLoader(data, batch_size=10, shuffle=True), [])
    import sys
    print([name for name in sys.modules if "levers" in name])
    """
    assert watch(code).printed == ["[]"]
    assert watch(code, levers={}).printed == ["[]"]
