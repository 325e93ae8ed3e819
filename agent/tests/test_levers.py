"""Levers in unmodified scripts: what the script itself sees of them, and what PyTorch without them makes of the same."""

import pytest

pytest.importorskip("torch")


def full(*values):
    """A case that the short set leaves out."""
    return pytest.param(*values, marks=pytest.mark.full_set)


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
    full("DataLoader(data, batch_size=10, sampler=RandomSampler(data), drop_last=True)", [32, 32, 32]),
    full("DataLoader(data, 10, True, num_workers=1, persistent_workers=True)", [32, 32, 32, 4]),
    full("DataLoader(Stream(), batch_size=10)", [32, 32, 6]),
    full("Mine(data, rows=10)", [32, 32, 32, 4]),
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
    full("DataLoader(TensorDataset(data.tensors[0].view(10, 10, 4), data.tensors[1].view(10, 10)), batch_size=None)",
     [10] * 10, "batch_size=None: the data set makes its batches itself"),
    ("DataLoader(data, batch_size=10, shuffle=True)", [10] * 10, "the data has 100 rows, fewer than a batch of 128"),
    full("DataLoader(data, batch_size=10, shuffle=True, drop_last=True)", [10] * 10,
     "the data has 100 rows, fewer than a batch of 128"),
    full("[data[:7], data[:9]]", [7, 9], "no DataLoader was read with gradients on: the script makes its batches itself, "
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


BLOCKS = """
    import copy
    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inside = nn.Sequential(nn.Linear(n, 4 * n), nn.BatchNorm1d(4 * n), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4 * n, n))
        def forward(self, x, *, scale=1.0):
            return x + scale * self.inside(x)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(4) for _ in range(6))
            self.head = nn.Linear(4, 3)
        def forward(self, x):
            for block in self.blocks:
                x = block(x, scale=0.5)
            return self.head(x)
    torch.manual_seed(3)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    kept = [0]
    def pack(tensor):
        kept[0] += tensor.numel()
        return tensor
    for step in range(4):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))
    print(sorted(torch.cat([p.flatten() for p in model.state_dict().values()]).tolist()))
    print(type(model(data.tensors[0])).__name__, Block.forward.__name__)
    import io, pickle
    torch.save(model.state_dict(), io.BytesIO())
    print(sorted(k for m in model.modules() for k in vars(m) if "assay" in k or k == "forward"))
"""


def test_checkpointing_computes_the_same(pull):
    """Losses, weights, running means and random numbers bit by bit, as without it."""
    plain, seen = pull(BLOCKS + "\n    print(kept)"), pull(BLOCKS, remedies=["checkpoint"])
    assert seen.printed == plain.printed[:-1]
    assert seen.levers == [{"lever": "checkpoint", "done": True}] and seen.places == ["6 Block of Net"]


def test_checkpointing_of_blocks_that_are_given_a_growing_list(pull):
    """As DenseNet's layers are: in backward the list is what it was in forward."""
    code = """
    class Layer(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inside = nn.Linear(4 * n, 4)
        def forward(self, features):
            return torch.tanh(self.inside(torch.cat(features, 1)))
    layers = nn.ModuleList(Layer(n) for n in (1, 2, 3))
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers
        def forward(self, x):
            features = [x]
            for layer in self.layers:
                features.append(layer(features))
            return torch.cat(features, 1)
    Dense()(data.tensors[0]).square().mean().backward()
    print([p.grad.norm().item() for p in layers.parameters()])
    """
    plain, seen = pull(code), pull(code, remedies=["checkpoint"])
    assert seen.printed == plain.printed and seen.levers == [{"lever": "checkpoint", "done": True}]


def test_checkpointing_keeps_less(pull):
    """What is live after the forward pass, as autograd's graph holds it: the inputs of blocks alone."""
    code = BLOCKS.split("    kept =")[0] + """
    import gc, weakref
    before = {id(t) for t in gc.get_objects() if isinstance(t, torch.Tensor)}
    made, numel = [], [0]
    from torch.utils._python_dispatch import TorchDispatchMode
    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for t in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(t, torch.Tensor):
                    made.append(weakref.ref(t.untyped_storage()))
            return result
    with Count():
        loss = nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1])
    held = {s().data_ptr(): s().nbytes() for s in made if s() is not None}
    print(sum(held.values()))
    """
    plain, seen = pull(code), pull(code, remedies=["checkpoint"])
    assert 0 < int(seen.printed[0]) < int(plain.printed[0]) / 2


@pytest.mark.parametrize("remedy, code, why", [
    full("checkpoint", "train(DataLoader(data, 10), [])", "it has no repeated blocks: no two modules of one class that have modules of their own"),
    full("channels_last", "train(DataLoader(data, 10), [])", "it has no weight of four dimensions: no 2-D convolution"),
    full("autocast", "model.double(); model(data.tensors[0].double())", "its parameters are float64"),
    ("autocast", """
    with torch.autocast("cpu"):
        model(data.tensors[0])""", "the script has autocast on already"),
    ("autocast", "test(DataLoader(data, 10), [])", "no model was called with gradients on"),
    full("foreach_off", "torch.optim.LBFGS(model.parameters())", "it has no option foreach"),
    ("magic", "pass", "there is no remedy of that name"),
])
def test_remedies_that_find_nothing(pull, remedy, code, why):
    seen = pull("\n    " + code.lstrip() + "\n    print('as before')", remedies=[remedy])
    assert seen.printed == ["as before"]
    assert {"lever": remedy, "done": False, "why": why} in seen.levers
    assert remedy == "foreach_off" or not any(e["done"] for e in seen.levers)


def test_autocast(pull):
    """Within the model bfloat16, outside of it float32: weights, output, loss, gradients."""
    seen = pull("""
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    model[0].register_forward_hook(lambda module, args, result: print(result.dtype))
    out = model(data.tensors[0])
    loss = nn.functional.cross_entropy(out, data.tensors[1])
    loss.backward()
    print(out.dtype, loss.dtype, model[0].weight.grad.dtype, torch.is_autocast_enabled("cpu"))
    print(abs(loss.item() - nn.functional.cross_entropy(model.eval()(data.tensors[0]), data.tensors[1]).item()) < 0.01)
    """, remedies=["autocast"])
    assert seen.printed[:2] == ["torch.bfloat16", "torch.float32 torch.float32 torch.float32 False"]
    assert seen.printed[-1] == "True"
    assert seen.levers == [{"lever": "autocast", "done": True}] and seen.places == ["Sequential: forward in bfloat16"]


def test_channels_last(pull):
    code = """
    class Looks(nn.Conv2d):
        def forward(self, x):
            print(x.is_contiguous(memory_format=torch.channels_last), self.weight.is_contiguous(memory_format=torch.channels_last))
            return super().forward(x)
    model = nn.Sequential(Looks(3, 8, 3), nn.Flatten(), nn.LazyLinear(2))
    x = torch.randn(2, 3, 8, 8)
    model(x)
    model(x).sum().backward()
    print(x.is_contiguous(), round(model[0].weight.grad.norm().item(), 3))
    """
    plain, seen = pull(code), pull(code, remedies=["channels_last"])
    assert plain.printed[:2] == ["False False"] * 2
    assert seen.printed[:2] == ["False False", "True True"], "a lazy model is known after its first call"
    assert plain.printed[2] == seen.printed[2]
    assert seen.levers == [{"lever": "channels_last", "done": True}]


def test_plain_updates(pull):
    seen = pull("""
    optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=True)
    print([(g["foreach"], g["fused"]) for g in optimizer.param_groups])
    train(DataLoader(data, 50), [])
    """, remedies=["foreach_off", "fused_off"])
    assert seen.printed == ["[(False, False)]"]
    assert {(e["lever"], e["done"]) for e in seen.levers} == {("foreach_off", True), ("fused_off", True)}


def test_a_traceback_shows_nothing_of_us(pull):
    """An exception within a block under every remedy: the frames are the script's and PyTorch's."""
    seen = pull("""
    import traceback
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = nn.Linear(4, 4)
        def forward(self, x):
            if len(x) == 7:
                raise ValueError("seven")
            return self.inside(x)
    model = nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for n in (5, 7):
        try:
            optimizer.zero_grad()
            model(data.tensors[0][:n]).sum().backward()
            optimizer.step()
        except ValueError:
            print(traceback.format_exc())
    """, remedies=["checkpoint", "autocast", "channels_last"])
    text = "\n".join(seen.printed)
    assert "ValueError: seven" in text and "assay_agent" not in text


LOOP = """
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.%(optimizer)s
    loader = DataLoader(data, %(loader)s)
    seen = []
    for epoch in range(2):
        for x, y in loader:
            seen.append(len(x))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)%(also)s
            loss.backward()
            %(clip)s
            optimizer.step()
        scheduler = None
    torch.set_printoptions(precision=8)
    print(sum(seen), max(seen))
    print(torch.cat([p.detach().flatten() for p in model.parameters()]).tolist())
"""
PLAIN = {"optimizer": "SGD(model.parameters(), 0.5, momentum=0.9)", "loader": "batch_size=32, shuffle=True", "also": "", "clip": "pass"}


@pytest.mark.parametrize("how", [
    full({}), full({"optimizer": "AdamW(model.parameters(), 0.01)"}), full({"loader": "batch_size=32, shuffle=True, drop_last=True"}),
    full({"loader": "batch_size=32"}), {"clip": "nn.utils.clip_grad_norm_(model.parameters(), 0.1)"},
    full({"also": " * 0.5 + (model(x) ** 2).mean()"}),
], ids=str)
def test_accumulated_updates_are_those_of_the_whole_batch(pull, how):
    """Weights after two epochs, the last batch of each being a part, to rounding."""
    code = LOOP % dict(PLAIN, **how)
    plain, seen = pull(code), pull(code, accumulate=4)
    assert plain.printed[0].split()[1] == "32" and seen.printed[0] == plain.printed[0].replace(" 32", " 8")
    assert eval(seen.printed[1]) == pytest.approx(eval(plain.printed[1]), rel=1e-4, abs=1e-5)
    assert seen.levers == [{"lever": "accumulate", "done": True, "from": 32, "to": 8}]
    assert len(seen.column("number")) == len(plain.column("number")), "a step of the evidence is an update"


@pytest.mark.full_set
def test_accumulation_of_another_batch(pull):
    seen = pull(LOOP % PLAIN, batch=40, accumulate=2)
    assert seen.printed[0] == "200 20"
    assert seen.levers == [{"lever": "batch", "done": True, "from": 32, "to": 40},
                           {"lever": "accumulate", "done": True, "from": 40, "to": 20}]


@pytest.mark.full_set
@pytest.mark.parametrize("how, why", [
    ({"loader": "batch_size=30"}, "a batch of 30 rows has no 4 equal parts"),
    ({"also": " + model[0].weight.pow(2).sum()"}, "it is not known that the loss is a mean over the rows (SumBackward0)"),
    full({"also": "; loss = nn.functional.cross_entropy(model(x), y, reduction='sum')"},
     "it is not known that the loss is a mean over the rows (NllLossBackward0)"),
    full({"also": "; loss = nn.functional.cross_entropy(model(x), y, ignore_index=0)"},
     "its loss leaves rows out or weighs classes, so that the batches' means are not that of all"),
    ({"clip": "optimizer.step(lambda: None); continue"}, "the optimizer's step calls a closure"),
    full({"clip": "torch.optim.SGD(model.parameters(), 0).step()"}, "several optimizers step"),
    full({"clip": "nn.functional.cross_entropy(model(x), y).backward()"},
     "several backward passes make one step: the script accumulates by itself"),
    full({"clip": "optimizer.step(); [setattr(p, 'grad', torch.ones_like(p)) for p in model.parameters()]"},
     "steps and backward passes do not alternate"),
], ids=str)
def test_accumulation_that_would_not_be_right(pull, how, why):
    """It is said, and the loader gives the script's batches again."""
    seen = pull(LOOP % dict(PLAIN, **how) + "\n    print(loader.batch_size, seen[-1] in (seen[1], 100 %% seen[1]))".replace("%%", "%"),
                accumulate=4)
    assert [e for e in seen.levers if e["lever"] == "accumulate"] == [{"lever": "accumulate", "done": False, "why": why}]
    assert seen.printed[-1].split()[0] in ("32", "30")


def test_the_longest_rows_come_first(pull):
    code = """
    import random
    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 60
        def __getitem__(self, i):
            random.random(), torch.rand(1)
            return {"ids": [1] * (1 + (i * 37) % 61), "label": i}
    def pad(rows):
        longest = max(len(r["ids"]) for r in rows)
        return torch.ones(len(rows), longest), [r["label"] for r in rows]
    torch.manual_seed(2); random.seed(2)
    loader = DataLoader(Texts(), batch_size=8, shuffle=True, collate_fn=pad)
    for epoch in range(2):
        got = list(loader)
        print([len(x[0]) for x, _ in got])
        print(sorted(i for _, rows in got for i in rows) == list(range(60)))
        print(got[0][1], got[2][1])
    print(random.random(), torch.rand(1).item())
    """
    plain, seen = pull(code), pull(code, longest=True)
    assert seen.levers == [{"lever": "longest", "done": True, "from": 1, "to": 61}]
    for epoch in (0, 3):
        lengths = eval(seen.printed[epoch])
        assert lengths[0] == 61 and sorted(lengths)[-1] == 61 and len(lengths) == 8
        assert seen.printed[epoch + 1] == "True"
    assert sorted(1 + (i * 37) % 61 for i in eval(seen.printed[2].partition("]")[0] + "]"))[0] == 54
    assert seen.printed[-1] == plain.printed[-1], "the random numbers are the script's"


@pytest.mark.parametrize("loader, why", [
    ("DataLoader(Stream(), batch_size=4)", "the data set gives its rows in an order of its own"),
    full("DataLoader(data, batch_sampler=[[0, 1], [2, 3]])", "its batch sampler, list, puts batches together itself"),
    ("DataLoader(data, batch_size=4, sampler=RandomSampler(data, replacement=True, num_samples=10**12))",
     "how many rows a pass draws is not known, or it draws without end"),
    full("DataLoader(Broken(), batch_size=4)", "the data set could not be asked for its rows: KeyError('x')"),
])
def test_the_longest_that_cannot_be_found(pull, loader, why):
    seen = pull("""
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(9))
    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 9
        def __getitem__(self, i):
            raise KeyError("x")
    iter(%s)
    print("as before")
    """ % loader, longest=True)
    assert seen.printed == ["as before"]
    assert seen.levers == [{"lever": "longest", "done": False, "why": why}]


@pytest.mark.full_set
def test_rows_of_one_length(pull):
    seen = pull("train(DataLoader(data, batch_size=10, shuffle=True), [])".join(["\n    ", ""]), longest=True)
    assert seen.levers == [{"lever": "longest", "done": True, "from": 4, "to": 4, "note": "all rows have one length"}]


def test_out_of_memory_that_is_caught(watch):
    """PyTorch's own text, raised in a model and in backward; what passes through several calls counts once."""
    seen = watch(HEAD + """
    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n, self.inside = n, nn.Linear(4, 3)
        def forward(self, x):
            torch.empty(self.n)
            return self.inside(x)
    for step in range(3):
        try:
            nn.Sequential(Net(1 << 50))(data.tensors[0])
        except RuntimeError as error:
            text = str(error)
    try:
        Net(-1)(data.tensors[0])  # another error
    except RuntimeError:
        pass
    x = model(data.tensors[0]).sum()
    x.register_hook(lambda g: torch.empty(1 << 50))
    try:
        x.backward()
    except RuntimeError:
        pass
    print(text)
    """)
    told = {(e["where"].rpartition(":")[2], e["text"]): e["count"] for e in seen.all("out_of_memory")}
    assert sorted(told.values()) == [1, 3] and {text for _, text in told} == set(seen.printed)


@pytest.mark.full_set
@pytest.mark.parametrize("release, where, note", [
    pytest.param("2.0.1", None, None, marks=pytest.mark.full_set),
    pytest.param("2.5.1", "float16", "float16 without a GradScaler: small gradients become 0", marks=pytest.mark.full_set),
    ("2.8.0", "bfloat16", None),
])
def test_remedies_on_the_double(watch, double_settings, release, where, note):
    """What autocast takes on MPS goes by the release; checkpointing leaves losses equal there, random numbers of MPS's own generator included."""
    code = BLOCKS.replace("print(type", "#").replace("model = Net()", "model = Net().to('mps')").replace(
        "data.tensors[0]", "data.tensors[0].to('mps')").replace("data.tensors[1]", "data.tensors[1].to('mps')").replace(
        "AdamW", "SGD")
    double = double_settings(release)
    plain = watch(HEAD + code, on="double", double=double)
    seen = watch(HEAD + code, on="double", double=double, levers={"remedies": ["checkpoint"]})
    assert seen.printed == plain.printed and seen.one("lever")["done"], seen.all("lever")
    cast = watch(HEAD + code, on="double", double=double, levers={"remedies": ["autocast"]}).one("lever")
    if where is None:
        assert not cast["done"] and cast["why"]
    else:
        assert cast["done"] and cast["where"] == "Net: forward in " + where and cast.get("note") == note


@pytest.mark.full_set
def test_batch_in_a_rehearsal(watch, double_settings):
    seen = watch(HEAD + """
    model.to("mps")
    for x, y in DataLoader(data, batch_size=10, shuffle=True):
        nn.functional.cross_entropy(model(x.to("mps")), y.to("mps")).backward()
        optimizer.step()
        print(len(x))
    """, on="double", double=double_settings(), levers={"batch": 50})
    assert seen.printed == ["50", "50"] and seen.one("lever")["to"] == 50


def test_accumulation_without_values(watch, double_settings):
    """In a rehearsal that computes shapes alone the loss has no values that could be asked; the batches are what counts there."""
    seen = watch(HEAD + """
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)).to("mps")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(data, batch_size=50, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to("mps")), y.to("mps")).backward()
        optimizer.step()
        print(len(x))
    """, on="double", double=double_settings(shape_only=True), levers={"accumulate": 2})
    told = seen.one("lever")
    assert seen.printed == ["25"] * 4 and told["done"] and told["from"] == 50 and told["to"] == 25
    assert told["note"] == ("batch normalisation sees the rows of a part at a time; "
                            "whether the loss leaves rows out is not known without values")
