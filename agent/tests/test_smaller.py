"""smaller: what a training sees of images of half the side and sequences of half the length, and what is refused."""

import pytest

torch = pytest.importorskip("torch")

HEAD = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset
    torch.manual_seed(1)
    images, classes = torch.rand(8, 3, 12, 8), torch.arange(8) % 3
    words = torch.arange(80).view(8, 10)
    def train(loader, check=None):
        weight = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(weight.parameters(), 0.1)
        for batch in loader:
            optimizer.zero_grad()
            weight(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        return batch
"""


@pytest.fixture
def smaller(watch):
    """smaller(code): printed lines, and the one answer without its place."""

    def run(code, **settings):
        seen = watch(HEAD + code, levers={"remedies": ["smaller"]}, **settings)
        assert settings or seen.all("trouble") == []
        answers = [{k: v for k, v in e.items() if k not in ("ev", "where", "lever")} for e in seen.all("lever")]
        assert all(answer == answers[0] for answer in answers)  # of each loader
        return seen.printed, answers[0]

    return run


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.full_set)])
def test_images(smaller, workers):
    """By area: each of the new is the mean of four; classes are left, and so is evaluation."""
    printed, answer = smaller("""
    x, y = train(DataLoader(TensorDataset(images, classes), 8, sampler=range(8), num_workers=%d))
    want = images.view(8, 3, 6, 2, 4, 2).mean((3, 5))
    print(list(x.shape), torch.allclose(x, want), y.tolist() == classes.tolist())
    with torch.no_grad():
        for x, y in DataLoader(TensorDataset(images, classes), 8):
            print(list(x.shape))
    """ % workers)
    assert printed == ["[8, 3, 6, 4] True True", "[8, 3, 12, 8]"]
    assert answer == {"done": True, "from": 12, "to": 6, "note": "image side, by area; the loss is of other data"}


def test_masks_follow(smaller):
    printed, answer = smaller("""
    masks = torch.randint(0, 4, (8, 12, 8))
    holes = torch.randint(0, 2, (8, 1, 12, 8)).float()
    x, m, h = train(DataLoader(TensorDataset((images * 255).byte(), masks, holes), 8, sampler=range(8)))
    print(x.dtype, list(x.shape), m.dtype, (m == masks[:, ::2, ::2]).all().item(), (h == holes[:, :, ::2, ::2]).all().item())
    """)
    assert printed == ["torch.uint8 [8, 3, 6, 4] torch.int64 True True"]
    assert (answer["done"], answer["note"]) == (True, "image side, by area; masks by the nearest; the loss is of other data")


def test_sequences(smaller):
    """All that are of one length are cut; where the first half is padding, or left out of the loss, the second."""
    printed, answer = smaller("""
    class Named(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, i):
            labels = words[i].clone()
            labels[:6] = -100
            return {"input_ids": words[i], "attention_mask": torch.ones(10, dtype=torch.long), "labels": labels}
    batch = train(DataLoader(Named(), 8, sampler=range(8)))
    print((batch["input_ids"] == words[:, 5:]).all().item(), list(batch["attention_mask"].shape), batch["labels"][0].tolist())
    x, y = train(DataLoader(TensorDataset(words, classes), 8, sampler=range(8)))
    print((x == words[:, :5]).all().item(), len(y))
    """)
    assert printed == ["True [8, 5] [-100, 6, 7, 8, 9]", "True 8"]
    assert answer == {"done": True, "from": 10, "to": 5, "note": "length of the sequences, cut; the loss is of other data"}


@pytest.mark.full_set
@pytest.mark.parametrize("loader, why", [
    ("DataLoader(TensorDataset(images, torch.rand(8, 4)), 8)", "beside the images stand float32[8, 4]: boxes, points or masks would have to follow"),
    ("DataLoader([(images[i, :, : 6 + i], {'boxes': torch.rand(i, 4)}) for i in range(8)], 4, collate_fn=lambda b: tuple(zip(*b)))",
     "its tensors are not of one number of rows each: boxes, or rows of sizes of their own, would have to follow"),
    ("DataLoader(TensorDataset(torch.rand(8, 100, 6), classes), 8)", "float32[8, 100, 6]: not known which of its dimensions could be shortened"),
    ("DataLoader(TensorDataset(words, words[:, :7]), 8)", "its sequences are not of one length"),
    ("DataLoader([{'ids': w, 'start_positions': 3} for w in words], 8)", "start_positions would point into what is cut"),
    ("DataLoader(Stream(), 8)", "the data set gives its rows in an order of its own: none can be looked at before"),
    ("DataLoader(TensorDataset(classes), 8)", "its batches hold neither images nor sequences"),
    ("DataLoader(TensorDataset(words[:, :3], classes), 8)", "it is smaller than 4 already"),
    ("DataLoader(Broken(), 4)", "the data set could not be asked for its rows: KeyError('once')"),
])
def test_what_is_refused(smaller, loader, why):
    """Nothing is changed then."""
    printed, answer = smaller("""
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(images[i], 1) for i in range(8)])
    class Broken(torch.utils.data.Dataset):
        asked = 0
        def __len__(self): return 4
        def __getitem__(self, i):
            self.asked += 1
            if self.asked == 1:
                raise KeyError("once")
            return images[i], 1
    def shapes(thing):
        if isinstance(thing, torch.Tensor):
            return [list(thing.shape)]
        return sum(map(shapes, thing.values() if isinstance(thing, dict) else thing), [])
    loader = %s
    print(shapes(train(loader)) == shapes(list(loader)[-1]))
    """ % loader)
    assert answer == {"done": False, "why": why} and printed == ["True"]


def test_random_numbers_stay(smaller):
    code = """
    import random
    class Noise(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, i):
            print("read", i)
            return images[i] + torch.rand(1), random.random()
    batch = train(DataLoader(Noise(), 8, sampler=range(8)))
    print([round(v, 4) for v in batch[1].tolist()] == WANT)
    """
    import random

    random.seed(5)
    want = [round(random.random(), 4) for _ in range(8)]
    printed, _ = smaller("    import random\n    random.seed(5)\n" + code.replace("WANT", str(want)))
    assert printed == ["read %d" % i for i in range(8)] + ["True"]


@pytest.mark.full_set
def test_in_a_rehearsal_of_shapes(smaller, double_settings):
    printed, answer = smaller("""
    x, y = train((x.to("mps"), y.to("mps")) for x, y in DataLoader(TensorDataset(images, classes), 8, sampler=range(8)))
    print(list(x.shape))
    """, double=double_settings(shape_only=True))
    assert printed == ["[8, 3, 6, 4]"] and answer["done"]
