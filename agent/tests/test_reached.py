"""Whether a run came to an evaluation and to a checkpoint: what counts as one, and what does not."""

import pytest

pytest.importorskip("torch")

HEAD = """
    import copy
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(12, 4), torch.arange(12) % 3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def train(steps=3):
        model.train()
        for _ in range(steps):
            for x, y in DataLoader(data, 12):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
"""


@pytest.fixture
def reached(watch):
    """reached(code): (evaluated, saved) of the last event `reached` of the code after HEAD."""

    def run(code, head=HEAD, **settings):
        seen = watch(head + code, **settings)
        assert settings or seen.all("trouble") == []
        events = seen.all("reached")
        return (events[-1]["evaluated"], events[-1]["saved"]) if events else None

    return run


@pytest.mark.full_set
@pytest.mark.parametrize("code, evaluated, saved", [
    ("train()", False, False),
    ("train(); model.eval()", False, False),
    ("""
    train()
    with torch.no_grad():
        model(data.tensors[0])
    """, True, False),
    ("""
    train(1)
    model.eval()
    with torch.inference_mode():
        model(data.tensors[0])
    torch.save({"model": model.state_dict(), "step": 1}, "/dev/null")
    """, True, True),
    ("train(); model.eval(); model(data.tensors[0])", True, False),  # gradients are on, as many forget
    ("train(); average = copy.deepcopy(model).eval(); average(data.tensors[0])", True, False),
    ("train(); torch.save([1.0, torch.zeros(3)], '/dev/null')", False, False),  # losses are no checkpoint
    ("train(); torch.save(model, '/dev/null')", False, True),
    ("""
    from safetensors.torch import save_file
    train()
    save_file(model.state_dict(), folder + "/x.safetensors")
    """, False, True),
    # before the first step: a sanity check, the first weights
    ("""
    model.eval()
    with torch.no_grad():
        model(data.tensors[0])
    torch.save(model.state_dict(), "/dev/null")
    train()
    """, False, False),
    # a target that follows the model is called in the step
    ("""
    target = copy.deepcopy(model).eval()
    train(1)
    with torch.no_grad():
        target(data.tensors[0])
    train(1)
    """, False, False),
    # by hand
    ("""
    for _ in range(4):
        nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1]).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
    torch.save(model.state_dict(), "/dev/null")
    """, False, True),
    ("print(model(data.tensors[0]).sum())", None, None),
])
def test_what_counts(reached, tmp_path, code, evaluated, saved):
    if "save_file" in code:
        pytest.importorskip("safetensors")
    found = reached("    folder = %r\n" % str(tmp_path) + code if code.startswith("\n") else "    " + code)
    assert found == (None if evaluated is None else (evaluated, saved))


@pytest.mark.full_set
@pytest.mark.parametrize("evaluation", [
    "model.eval()",
    "read = True",
])
def test_with_the_hooks_off(reached, evaluation):
    """After some hundred steps the hooks are off most of the time."""
    assert reached("""
    from assay_agent.timeline import T
    read = False
    train(200)
    while not T.bare:
        train(1)
    %s
    with torch.no_grad():
        for x, y in DataLoader(data, 12) if read else [data.tensors]:
            model(x)
    print(T.bare)
    train(20)
    """ % evaluation) == (True, False)


def test_in_a_rehearsal(reached, double_settings):
    assert reached("""
    model.to("mps")
    data = TensorDataset(*(t.to("mps") for t in data.tensors))
    train()
    model.eval()
    with torch.no_grad():
        model(data.tensors[0])
    torch.save(model.state_dict(), "/dev/null")
    """, double=double_settings()) == (True, True)
