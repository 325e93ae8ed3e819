"""One run, all releases: what doubles that are asked beside the one in use say of a call is what they do when they are
in use themselves (double/releases.py)."""

import pytest

torch = pytest.importorskip("torch")

RELEASES = (("2.0.1", "0.15"), ("2.2.2", "0.17"), ("2.8.0", "0.23"), ("2.13.0", "0.28"), ("2.15.0", "0.29"))

CALLS = """
m = torch.device("mps")
def backward():
    x, grid = torch.ones(1, 1, 4, 4, device=m, requires_grad=True), torch.zeros(1, 2, 2, 2, device=m)
    torch.nn.functional.grid_sample(x, grid, align_corners=True).sum().backward()
def inference():
    with torch.inference_mode():
        torch.nn.functional.conv3d(torch.ones(1, 1, 2, 2, 2, device=m), torch.ones(1, 1, 1, 1, 1, device=m))
CALLS = [
    lambda: torch.ones(2, device=m) + 1,
    lambda: torch.ones(3, 4, device=m).roll(1),
    lambda: torch.ones(3, device=m, dtype=torch.bfloat16),
    lambda: torch.ones(3, dtype=torch.bfloat16).to(m),
    lambda: torch.ones(3, device=m, dtype=torch.complex64) * 2,
    lambda: torch.ones(3, device=m, dtype=torch.float64),
    lambda: torch.linalg.eigh(torch.eye(3, device=m)),
    lambda: torch.linalg.svd(torch.eye(3, device=m)),
    lambda: torch.linalg.solve(torch.eye(3, device=m), torch.ones(3, device=m)),
    lambda: torch.ones(4, device=m, dtype=torch.int64).cumsum(0),
    lambda: torch.ones(2, device=m) + torch.ones(2),
    lambda: torch.ones(8, device=m).histc(),
    lambda: torch.nn.functional.interpolate(torch.ones(1, 1, 4, 4, device=m), 7, mode="bicubic"),
    lambda: torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 1, 7, 7, device=m), 3),
    lambda: torch.ones(2, 3, device=m).to_sparse(),
    lambda: torch.ones(4, 4, device=m).t().contiguous().view(-1).median(),
    backward,
    inference,
]
"""


def test_what_is_said_is_what_happens(rehearse, double_settings):
    settings = [double_settings(*r) for r in RELEASES]
    lines = rehearse(CALLS + """
from assay_agent.double.current import current
from assay_agent.double.double import Double
from assay_agent.double.releases import Recording
double.dispatch, rows = Recording(double), {}
double.dispatch.tell = lambda event: rows.setdefault(event.get("n"), event)
double.dispatch.ask(%r)
asked = rows.pop(None)["asked"]
others = [Double(s) for s in %r]
def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
said = []
for call in CALLS:
    notes = {}
    current.notes.append(notes)
    mine = outcome(call)
    current.notes.remove(notes)
    said.append([next(((r["error"], r["text"]) for n in notes for r in rows[n]["refused"] if i in r["in"]), mine)
                 for i in range(len(asked))])
def happens(other):
    with other.use():
        return [outcome(call) for call in CALLS]
for i, other in enumerate(others):
    for n, came in enumerate(happens(other)):
        if (came is None) != (said[n][i] is None) or came and came[0] != said[n][i][0]:
            print(asked[i], n, "said", said[n][i], "came", came)
print("refused by one", sum(any(s) for s in said), "by not all", sum(any(s) and not all(s) for s in said))
""" % (settings, settings), *RELEASES[-1], fresh=True)
    assert len(lines) == 1, "\n".join(lines)
    words = lines[0].split()
    assert int(words[3]) >= 8 and int(words[-1]) >= 6, lines


def test_a_call_is_asked_once_and_what_it_costs_is_bounded(rehearse, double_settings):
    """A loop's calls are one; calls by value are asked each time; what is kept of a test is bounded, and said."""
    lines = rehearse("""
from assay_agent.double import releases
from assay_agent.double.current import current
double.dispatch = d = releases.Recording(double)
events = []
d.tell = events.append
d.ask(%r)
notes = {}
current.notes.append(notes)
x = torch.ones(3, 4, device="mps")
x.roll(1)
before = d.distinct
for _ in range(50):
    x.roll(1)
print(d.distinct - before, len(notes), [e["op"] for e in events if e["ev"] == "release_call"])
releases.CALLS = len(d.rows)
x.roll(2).roll(1, 0)
print(d.full, len(notes))
releases.KEYS = 1
x.roll(3)
print(len(d.verdicts))
""" % [double_settings(*r) for r in RELEASES], *RELEASES[-1], fresh=True)
    assert lines == ["0 1 ['aten::roll']", "True 1", "1"]
