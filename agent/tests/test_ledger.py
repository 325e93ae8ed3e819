"""The account of memory by kind, against what PyTorch itself says of a model: sizes of its tensors, and the tensors that
autograd saves."""

import pytest

torch = pytest.importorskip("torch")

KINDS = {"weights", "gradients", "optimizer", "activations", "workspace", "data", "other"}

# A model, its batch, and the sizes of its tensors as the allocator rounds them: 256 bytes.
MODEL = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    def size(tensors):
        held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        return sum(-(-n // 256) * 256 for n in held.values())
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(),
                          nn.Linear(256, 8)).to("mps")
    weights = size(list(model.parameters()) + list(model.buffers()))
    x, y = torch.randn(128, 64), torch.randint(0, 8, (128,))
    loss_of = lambda: nn.functional.cross_entropy(model(x.to("mps")), y.to("mps"))
"""


def account(watch, double_settings, code, **more):
    watched = watch(MODEL + code, double=double_settings("2.15.0", "0.29", **more))
    told = watched.one("account")
    assert set(told["kinds"]) == KINDS and sum(told["kinds"].values()) == told["allocated_peak"]
    assert not [t for t in watched.all("trouble") if "DataLoader" not in t["what"]]
    return told, [int(line) for line in watched.printed]


@pytest.mark.parametrize("shape_only", [False, True])
def test_kinds_at_the_peak_of_a_step(watch, double_settings, shape_only):
    told, (weights, gradients, state) = account(watch, double_settings, """
    x, y = x[:8], y[:8]
    opt = torch.optim.Adam(model.parameters(), foreach=True)
    for _ in range(3):
        opt.zero_grad()
        loss_of().backward()
        opt.step()
    print(weights)
    print(size(p.grad for p in model.parameters()))
    print(size(t for s in opt.state.values() for t in s.values() if t.device.type == "mps"))
""", shape_only=shape_only)
    kinds = told["kinds"]
    if not shape_only:  # data_ptr() of tensors without data is 0
        assert (kinds["weights"], kinds["gradients"], kinds["optimizer"]) == (weights, gradients, state)
        assert 2 * gradients <= state <= 2 * gradients + 256 * 16
    assert told["at"]["phase"] == "optimizer" and told["at"]["step"] == 1  # lists of temporaries as large as the model
    assert kinds["workspace"] >= kinds["gradients"]
    assert told["steady"] >= kinds["weights"] + kinds["gradients"] + kinds["optimizer"]
    assert [p["what"] for p in told["pieces"]] == ["training step"]
    assert (told["evaluated"], told["saved"]) == (False, False)
    assert told["peak"] >= told["allocated_peak"] >= told["pieces"][0]["peak"] > 0


def test_the_account_without_data_is_that_with_data(watch, double_settings):
    code = """
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        opt.zero_grad()
        loss_of().backward()
        opt.step()
"""
    with_data, _ = account(watch, double_settings, code)
    without, _ = account(watch, double_settings, code, shape_only=True)
    assert with_data == without


def test_activations_are_what_autograd_saves(watch, double_settings):
    """The oracle is PyTorch's own saved_tensors_hooks: at the end of a forward pass its result and what is saved are
    left, but for what modules hold and the batch."""
    told, (saved,) = account(watch, double_settings, """
    del model
    kept = {}
    def keep(t):
        kept[t.untyped_storage().data_ptr()] = t
        return t
    big = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)) for _ in range(12)]).to("mps")
    data = torch.randn(4096, 64).to("mps")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        out = big(data)
    mine = {p.untyped_storage().data_ptr() for p in [*big.parameters(), data]}
    kept = [t for at, t in kept.items() if at not in mine and t.device.type == "mps"]
    print(size(kept + [out]))
    del keep
""")
    assert told["at"]["phase"] == "forward"
    # what the last operator needed on its way is workspace: no more than a few tensors of the batch's size
    assert saved <= told["kinds"]["activations"] + told["kinds"]["workspace"] <= saved + 3 * 4096 * 64 * 4
    assert told["kinds"]["activations"] >= 0.9 * saved
    assert told["kinds"]["data"] == 4096 * 64 * 4


def test_the_peak_of_a_backward_pass_has_gradients_and_activations(watch, double_settings):
    told, (weights, gradients) = account(watch, double_settings, """
    opt = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    x, y = torch.randn(8192, 64), torch.randint(0, 8, (8192,))
    for _ in range(3):
        loss_of().backward()
        opt.step()
    print(weights)
    print(size(p.grad for p in model.parameters()))
""")
    kinds = told["kinds"]
    assert told["at"]["phase"] == "backward"
    assert kinds["weights"] == weights and 0 < kinds["gradients"] <= gradients and kinds["optimizer"] == 0
    assert kinds["activations"] > 3 * 8192 * 256 * 4
    assert kinds["data"] >= 8192 * 64 * 4


def test_checkpointing_turns_activations_into_less(watch, double_settings):
    code = """
    from torch.utils.checkpoint import checkpoint
    big = nn.ModuleList([nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(8)]).to("mps")
    data = torch.randn(2048, 64).to("mps")
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = big
        def forward(self, x):
            for b in self.blocks:
                x = %s
            return x
    net = Net()
    net(data).sum().backward()
"""
    plain, _ = account(watch, double_settings, code % "b(x)")
    less, _ = account(watch, double_settings, code % "checkpoint(b, x, use_reentrant=False)")
    assert less["kinds"]["activations"] < 0.5 * plain["kinds"]["activations"]
    assert less["kinds"]["activations"] > 2048 * 256 * 4  # one block's, computed anew
    assert less["allocated_peak"] < plain["allocated_peak"]


def test_evaluation_and_saving_are_pieces(watch, double_settings):
    told, (weights, largest) = account(watch, double_settings, """
    import io
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of().backward()
    opt.step()
    opt.zero_grad()
    model.eval()
    with torch.no_grad():
        model(torch.randn(4096, 64).to("mps"))
    torch.save(model.state_dict(), io.BytesIO())
    print(weights)
    print(max(p.untyped_storage().nbytes() for p in model.parameters()))
""")
    assert told["evaluated"] and told["saved"]
    pieces = {p["what"]: p for p in told["pieces"]}
    assert set(pieces) == {"training step", "evaluation", "saving"}
    assert pieces["evaluation"]["peak"] >= weights + 4096 * (64 + 2 * 256) * 4
    assert pieces["evaluation"]["peak"] == told["allocated_peak"] and told["at"]["phase"] == "evaluation"
    assert pieces["saving"]["peak"] == weights and pieces["saving"]["host"] == largest


def test_what_is_no_evaluation(watch, double_settings):
    """Not a teacher's pass, a module still in training mode, nor torch.save of what is on the CPU."""
    told, _ = account(watch, double_settings, """
    import io
    teacher = nn.Linear(64, 8).to("mps").eval()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with torch.no_grad():
            teacher(x.to("mps"))
            model(x.to("mps"))
        loss_of().backward()
        opt.step()
    torch.save(torch.ones(3), io.BytesIO())
""")
    assert not told["evaluated"] and not told["saved"]
    assert [p["what"] for p in told["pieces"]] == ["training step"]


def test_kinds_of_a_step_that_memory_refuses(watch, double_settings):
    """The script lets go of everything when it ends so; what was there is told all the same."""
    told, (weights,) = account(watch, double_settings, """
    print(weights)
    def train():
        opt = torch.optim.Adam(model.parameters())
        for _ in range(2):
            loss_of().backward()
            opt.step()
        held = []
        while True:
            held.append(torch.ones(1 << 20, device="mps"))
    try:
        train()
    except RuntimeError as error:
        assert "out of memory" in str(error)
    del model
""", recommended=64 << 20)
    assert told["kinds"]["weights"] == weights and told["kinds"]["gradients"] > 0 and told["kinds"]["optimizer"] > 0
    assert told["limits"]["high"] == int(1.7 * (64 << 20)) and told["limits"]["low"] == int(1.4 * (64 << 20))
    assert told["allocated_peak"] <= told["limits"]["high"]


def test_bytes_of_operators(watch, double_settings):
    watched = watch("""
        import torch
        a = torch.ones(100, 200, device="mps")
        b = torch.ones(200, 50, device="mps")
        c = a @ b
        d = c.t().relu()
        c.add_(1)
        torch.ones(1, 50, device="mps").expand(100, 50) + c
    """, double=double_settings())
    rows = {row["op"]: row["bytes"] for row in watched.one("ops")["rows"]}
    assert rows["aten::mm"] == 4 * (100 * 200 + 200 * 50 + 100 * 50)
    assert rows["aten::relu"] == 4 * 2 * 100 * 50
    assert rows["aten::add_.Tensor"] == 4 * 2 * 100 * 50
    assert rows["aten::t"] == rows["aten::expand"] == 0
    assert rows["aten::add.Tensor"] == 4 * (50 + 2 * 100 * 50)
