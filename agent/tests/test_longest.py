"""The longest batch of the data, against data whose longest item the test knows."""

import pytest

torch = pytest.importorskip("torch")

TRAIN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, IterableDataset
    torch.manual_seed(0)
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.last = nn.Embedding(100, 8), nn.Linear(8, 2)
        def forward(self, ids):
            return self.last(self.embed(ids).mean(1))
    class Texts(Dataset):
        n = 300
        def __len__(self):
            return self.n
        def __getitem__(self, i):
            if i >= self.n:
                raise IndexError(i)
            return torch.ones(77 if i == 211 else 5 + i % 7, dtype=torch.long), i % 2
    def padded(items):
        return (nn.utils.rnn.pad_sequence([ids for ids, _ in items], batch_first=True),
                torch.tensor([label for _, label in items]))
    def train(batches, steps=2):
        model = Model().to("mps")
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for at, (ids, labels) in enumerate(batches):
            if at == steps:
                break
            opt.zero_grad()
            nn.functional.cross_entropy(model(ids.to("mps")), labels.to("mps")).backward()
            opt.step()
"""


@pytest.fixture
def batch(watch, double_settings):
    def run(code, **more):
        watched = watch(TRAIN + "\n" + code, double=double_settings(), **more)
        return watched.one("account").get("batch"), watched
    return run


def test_the_longest_of_lengths_that_vary(batch):
    told, _ = batch("    train(DataLoader(Texts(), 4, collate_fn=padded))")
    assert (told["rows"], told["length"], told["longest"]) == (4, 11, 77)
    assert told["lengths"] == 2  # items 0 to 3 and 4 to 7: padded to 8 and to 11
    assert (told["longest_seen_of"], told["items"]) == (300, 300) and "why" not in told


def test_collated_parts_are_no_rows(batch):
    """What the default collate makes of rows of one tensor, or of several alike, is no list of rows."""
    told, _ = batch("""
    from torch.utils.data import TensorDataset
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(48, 2)
        def forward(self, x):
            return self.last(x.flatten(1))
    model = Images().to("mps")
    for parts in DataLoader(TensorDataset(torch.ones(40, 3, 4, 4), torch.ones(40, 3, 4, 4)), 8):
        sum(model(part.to("mps")).sum() for part in parts).backward()
    """)
    assert (told["rows"], told["length"], told["longest"]) == (8, 48, 48)


def test_tracing_is_not_looked_at(batch):
    """While torch.jit.trace runs sizes are tensors, and to read one is a warning that the script would not have."""
    told, watched = batch("""
    train(DataLoader(Texts(), 4, collate_fn=padded))
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(Model().to("mps"), torch.ones(2, 9, dtype=torch.long).to("mps"))
    """)
    assert told["rows"] == 4


def test_the_function_that_trained_may_have_returned(batch):
    told, _ = batch("""
    def main():
        train(DataLoader(Texts(), 4, collate_fn=padded, shuffle=True))
    main()
""")
    assert told["longest"] == 77


def test_data_that_print_log_and_draw(batch):
    """Nothing of it is seen, and what the script drew it draws again."""
    code = """
    import logging, random, warnings
    class Loud(Texts):
        def __getitem__(self, i):
            print("item", i)
            logging.warning("item %d", i)
            warnings.warn("item %d" % i)
            random.random()
            return super().__getitem__(i)
    train(DataLoader(Loud(), 4, collate_fn=padded))
    print(random.Random(3).random(), torch.rand(1).item())
"""
    told, watched = batch(code)
    assert told["longest"] == 77
    assert [line for line in watched.printed if line.startswith("item")] == ["item %d" % i for i in range(12)]


@pytest.mark.full_set
def test_what_is_not_looked_at_says_why(batch):
    told, _ = batch("""
    class Stream(IterableDataset):
        def __iter__(self):
            return (Texts()[i] for i in range(20))
    train(DataLoader(Stream(), 4, collate_fn=padded))
""")
    assert "longest" not in told and "stream" in told["why"] and told["longest_seen_of"] == 0 and told["rows"] == 4
    told, _ = batch("    train([(torch.ones(6, 9, dtype=torch.long), torch.ones(6, dtype=torch.long))])")
    assert (told["rows"], told["length"]) == (6, 9) and "longest" not in told and "no DataLoader" in told["why"]
    told, _ = batch("""
    class Broken(Texts):
        def __getitem__(self, i):
            if self.n < 300:
                raise OSError("the file was closed")
            return super().__getitem__(i)
    data = Broken()
    train(DataLoader(data, 4, collate_fn=padded))
    data.n = 299
""")
    assert "longest" not in told and "OSError" in told["why"] and "the file was closed" in told["why"]


@pytest.mark.full_set
def test_no_more_is_looked_at_than_the_bounds_allow(batch):
    told, _ = batch("""
    class Endless(Texts):
        n = 10 ** 9
        def __getitem__(self, i):
            return torch.ones(6, dtype=torch.long), 0
    train(DataLoader(Endless(), 4, collate_fn=padded))
""")
    assert told["longest"] == 6 and told["longest_seen_of"] == 256 and "256 of 1000000000" in told["why"]
    told, _ = batch("""
    import time
    clock = time.monotonic
    class Slow(Texts):
        def __getitem__(self, i):
            time.monotonic = lambda: clock() + 1000
            return super().__getitem__(i)
    slow = Slow()
    train([padded([Texts()[i] for i in range(4)])])
    next(iter(DataLoader(slow, 4, collate_fn=padded)))
    time.monotonic = clock
""")
    assert told["longest_seen_of"] == 1 and "1 of 300" in told["why"]


def test_lists_of_images(batch):
    """As detectors take them: a batch is a list, of pictures of any size."""
    told, _ = batch("""
    class Pictures(Dataset):
        def __len__(self):
            return 20
        def __getitem__(self, i):
            return torch.ones(3, 40 if i == 13 else 8, 10)
    net = nn.Conv2d(3, 2, 3).to("mps")
    class Detector(nn.Module):
        def forward(self, images):
            return sum(net(x[None]).sum() for x in images)
    detector = Detector()
    for images in DataLoader(Pictures(), 4, collate_fn=list):
        detector([x.to("mps") for x in images]).backward()
        break
""")
    assert (told["rows"], told["length"], told["longest"]) == (4, 3 * 8 * 10, 3 * 40 * 10)


def test_without_a_model_there_is_no_batch(batch):
    told, _ = batch("    torch.ones(3, device='mps').add(1)")
    assert told is None
