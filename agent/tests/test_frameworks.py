"""The list of frameworks, what each folder has to have, and which file may import which."""

import ast
import graphlib
import importlib
import importlib.util
import json
import os
import re
import sys
import types

import pytest

from assay_agent import guest, process, timeline, wire
from assay_agent.device import Device
from assay_agent.watch import cost, frameworks, imports, memory
from assay_agent.watch.adapter import Adapter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "toy"))
import record  # noqa: E402

AGENT = os.path.dirname(guest.__file__)


# -- a framework of a stranger's
# ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy():
    bare, watched, lines = record.record()
    assert bare == watched, "the script cannot tell"
    return [json.loads(line) for line in lines]


def test_a_folder_and_a_line_make_a_framework(toy):
    events = {e["ev"]: e for e in toy}
    assert "trouble" not in events
    assert (events["framework"]["name"], events["framework"]["version"]) == ("toy", "1.2.3")
    assert (
        events["device"] == {"ev": "device", "type": "abacus", "queued": True, "name": "Abacus 1"}
        and events["limit"]["bytes"] == 1024
    )
    assert [row["name"] for row in events["phases"]["rows"]] == ["load", "learn", "rest"]
    steps = events["steps"]
    assert steps["number"] == list(range(1, 46)) and steps["epoch"] == [1] * 15 + [2] * 15 + [3] * 15
    assert list(map(sum, zip(*steps["phases"].values()))) == steps["total"]
    assert set(steps["phases"]) == {"load", "learn", "rest"} and min(steps["phases"]["learn"]) > 0
    assert [n for n, kind in zip(steps["number"], steps["kind"]) if kind == "sync"] == [20, 40]
    assert set(events["memory"]["phases"]) == {"load", "learn"} and events["cost"]["steps"] == 45


# -- every framework of the list
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", frameworks.FRAMEWORKS)
def test_what_a_framework_has(name):
    adapter = importlib.import_module("assay_agent.watch." + name).ADAPTER
    assert isinstance(adapter, Adapter)
    assert adapter.version(types.SimpleNamespace(__version__="1.2")) == "1.2"
    assert adapter.hooks and all(callable(hook.install) for hook in adapter.hooks)
    folder = os.path.join(AGENT, "watch", name) + os.sep
    assert all(hook.__file__.startswith(folder) for hook in adapter.hooks)
    phases = timeline.T.phases
    assert 1 < len(phases) <= 16, "as many as the supervisor takes"
    assert all(re.fullmatch("[a-z][a-z0-9_]{0,31}", p.name) and p.title and p.doc for p in phases)
    assert len({p.order for p in phases}) == len(phases), "no two at one place"


class Fake:
    """A framework whose hooks note that they were installed."""

    def __init__(self, monkeypatch):
        self.said, self.done, self.cleared = [], [], []
        monkeypatch.setattr(wire, "put", self.said.append)
        monkeypatch.setattr(frameworks, "_installed", [])
        monkeypatch.setattr(guest, "libraries", set(guest.libraries))
        monkeypatch.setattr(memory, "install", lambda framework, config: self.done.append("memory"))
        monkeypatch.setattr(cost, "install", lambda framework, config: self.done.append("cost"))
        self.returns = []
        for owner, name in ((process, "finisher"), (process, "when_back"), (process, "after_fork"), (wire, "source")):
            monkeypatch.setattr(owner, name, self.returns.append)
        monkeypatch.setattr(timeline, "T", timeline.Timeline())
        self.adapter = Adapter()
        for name in ("assay_agent.watch.fake", "assay_agent.watch.other"):
            monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(ADAPTER=self.adapter))
        self.framework = types.SimpleNamespace(__version__="9.0")

    def hook(self, name, fails=None):
        def install(framework, config):
            assert framework is self.framework and config == self.config
            if fails:
                raise fails
            self.done.append(name)

        return types.SimpleNamespace(
            __name__="watch.fake." + name, install=install, clear=lambda: self.cleared.append(name)
        )

    def install(self, name="fake", **config):
        self.config = config
        frameworks.installed(name, self.framework, config)

    def names(self):
        return [e["ev"] for e in self.said]


@pytest.fixture
def fake(monkeypatch):
    return Fake(monkeypatch)


def test_hooks_are_installed_in_their_order(fake):
    fake.adapter.hooks = (fake.hook("one"), fake.hook("two"))
    fake.install()
    assert fake.done == ["memory", "one", "two", "cost"]
    assert fake.said[0] == {"ev": "framework", "name": "fake", "version": "9.0"} and fake.names() == [
        "framework",
        "installed",
    ]
    assert "fake" in guest.libraries, "what it raises in a hook is no news of the script's"
    assert timeline.T.finish in fake.returns and timeline.T.resume in fake.returns and timeline.T.reset in fake.returns
    assert timeline.gather in fake.returns
    for function in fake.returns:
        if function not in (timeline.T.finish, timeline.T.resume, timeline.T.reset, timeline.gather, memory.clear):
            function()
    assert fake.cleared == ["one", "two"]


def test_a_hook_that_fails_leaves_the_others(fake):
    fake.adapter.hooks = (fake.hook("one", ValueError("no")), fake.hook("two"))
    fake.install()
    assert fake.done == ["memory", "two", "cost"]
    assert [e["what"] for e in fake.said if e["ev"] == "trouble"] == ["one not installed: ValueError('no')"]


def test_nothing_is_watched_where_it_cannot_be_prepared(fake, monkeypatch):
    fake.adapter.hooks = (fake.hook("one"),)
    monkeypatch.setattr(Adapter, "prepare", lambda self, framework, config: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fake.install()
    assert fake.done == [] and fake.names() == []


def test_a_second_framework_is_watched_by_the_same_timeline(fake):
    fake.adapter.hooks = (fake.hook("one"),)
    fake.install()
    fake.install("other")
    assert fake.done == ["memory", "one", "cost", "one"]
    assert fake.returns.count(timeline.gather) == 1 and fake.returns.count(timeline.T.finish) == 1


def test_limits_are_told_to_the_timeline(fake, monkeypatch):
    monkeypatch.setattr(frameworks.time, "perf_counter_ns", lambda: 5_000_000_000)
    monkeypatch.setattr(frameworks.time, "time", lambda: 103.0)
    fake.install(**{"steps": 7, "for": 10, "wall": 100.0})
    assert timeline.T.limit_steps == 7 and timeline.T.limit_at == 12_000_000_000, (
        "ten seconds from the start, of which three are over"
    )


def test_each_name_of_the_list_is_waited_for(monkeypatch):
    waited = {}
    monkeypatch.setattr(frameworks, "FRAMEWORKS", ("one", "two"))
    monkeypatch.setattr(frameworks, "when_imported", waited.__setitem__)
    monkeypatch.setattr(frameworks, "installed", lambda *args: args)
    frameworks.install({"steps": 1})
    assert waited["one"]("module") == ("one", "module", {"steps": 1}) and waited["two"]("m")[0] == "two"


# -- waiting for a module
# --------------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Modules madeup, which says when it has run, and madeup2."""
    (tmp_path / "madeup.py").write_text("import builtins\nran = True\n")
    (tmp_path / "madeup2.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield
    for name in ("madeup", "madeup2"):
        sys.modules.pop(name, None)


def test_a_module_is_waited_for(made_up):
    found, before = [], list(sys.meta_path)
    imports.when_imported("madeup", found.append)
    assert len(sys.meta_path) == len(before) + 1
    import madeup2

    assert importlib.util.find_spec("madeup") is not None
    assert found == [], "another module, and one that is only looked for"
    import madeup

    assert found == [madeup] and madeup.ran and madeup2 is not madeup
    assert sys.meta_path == before, "as it was"
    assert "exec_module" not in vars(madeup.__spec__.loader), "its loader as it would have been"
    importlib.reload(madeup)
    imports.when_imported("madeup", found.append)
    assert found == [madeup, madeup], "once for the import, and at once where that is over"


def test_a_module_whose_hooks_fail_is_imported_all_the_same(made_up, monkeypatch):
    said = []
    monkeypatch.setattr(wire, "trouble", said.append)
    imports.when_imported("madeup", lambda module: 1 / 0)
    import madeup

    assert madeup.ran and said == ["madeup: hooks not installed: ZeroDivisionError('division by zero')"]


def test_a_module_that_is_not_there(made_up):
    imports.when_imported("madeup3", print)
    with pytest.raises(ModuleNotFoundError):
        import madeup3  # noqa: F401


# -- the account of any device
# ---------------------------------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch):
    found = []
    monkeypatch.setattr(wire, "put", found.append)
    monkeypatch.setattr(timeline, "T", timeline.Timeline())
    monkeypatch.setattr(memory, "T", timeline.T)
    memory.clear()
    return found


def test_epochs_tell_what_the_device_holds(said):
    timeline.T.device = Device("abacus", memory=lambda: (3, 4), peak=lambda: (5, 6, "abacus.most"))
    timeline.T.number = 8
    memory._epoch(2, timeline.T)
    assert (
        said[0] == dict(ev="epoch", number=2, step=8, live=3, pool=4, resident=said[0]["resident"])
        and said[0]["resident"] > 0
    )
    assert said[1] == {"ev": "peak", "live": 5, "pool": 6, "source": "abacus.most"}
    said.clear()
    timeline.T.on = False
    memory._epoch(2, timeline.T)
    assert (said[0]["live"], said[0]["pool"]) == (-1, -1), "at goodbye the model may be gone already"
    timeline.T.on = True
    said.clear()
    timeline.T.device = Device("cpu")
    memory._epoch(1, timeline.T)
    assert (said[0]["live"], said[0]["pool"]) == (-1, -1) and len(said) == 1


def test_phases_tell_what_the_device_holds(said):
    timeline.T.device = Device("abacus", memory=lambda: (3, 4))
    memory._phase("learn")
    memory._gather()
    (row,) = said[0]["phases"]["learn"]
    assert row[:2] == (3, 4) and row[2] > 0
    memory._gather()
    assert len(said) == 1, "told once"


@pytest.mark.parametrize(
    "device, sampled", [(Device("cpu"), True), (Device("abacus", synchronize=print), False), (Device(""), False)]
)
def test_a_synchronous_device_has_its_phases_looked_at(said, device, sampled):
    timeline.T.device = device
    for number in (19, 20, 21):
        timeline.T.sync, timeline.T.sampled = None, number == 20
        memory._sample(number, timeline.T)
        assert (timeline.T.sync is not None) == (sampled and number == 20)


def test_what_a_device_says_of_itself(said):
    timeline.T.use(Device("abacus", "Abacus 1", limit=(10, "abacus.size")))
    timeline.T.use(Device("cpu"))
    assert said == [
        {"ev": "limit", "bytes": 10, "source": "abacus.size"},
        {"ev": "device", "type": "abacus", "queued": False, "name": "Abacus 1"},
        {"ev": "device", "type": "cpu", "queued": False},
    ]
    assert timeline.T.device.kind == "cpu"


def test_the_cost_is_told_when_there_are_new_steps(said, monkeypatch):
    monkeypatch.setattr(cost, "T", timeline.T)
    monkeypatch.setattr(cost, "_last", [0])
    monkeypatch.setattr(cost, "_per_call", {"fetch": 100, "step": 10})
    cost._gather(force=True)
    assert said == [], "no step, no cost"
    timeline.T.number, timeline.T.memory_ns, timeline.T.heavy_ns = 2, 7, 9
    timeline.T.counts.update(fetch=3, step=2, copy=5)
    cost._gather()
    cost._gather()
    assert len(said) == 1
    assert (said[0]["hooks_ns"], said[0]["heavy_ns"], said[0]["steps"]) == (3 * 100 + 2 * 10 + 7, 9, 2)
    cost.report()
    assert len(said) == 2, "and at the end"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_and_the_machine():
    """Against the same kernel's other words for it."""
    with open("/proc/self/status") as f:
        status = dict(line.split(":", 1) for line in f)
    assert abs(memory.resident() - int(status["VmRSS"].split()[0]) * 1024) < 32 << 20
    with open("/proc/swaps") as f:
        used = sum(int(line.split()[3]) * 1024 for line in f.read().splitlines()[1:])
    assert abs(memory.swap() - used) < 32 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_swap_in_use(monkeypatch):
    monkeypatch.setattr(memory, "_read", lambda path: b"MemTotal: 9 kB\nSwapTotal:  1000 kB\nSwapFree:  400 kB\n")
    assert memory.swap() == 600 * 1024
    monkeypatch.setattr(memory, "_read", lambda path: b"nothing")
    assert memory.swap() == -1 and memory.resident() == -1


# -- arrows
# ----------------------------------------------------------------------------------------------------------------------

# The files that know no framework, lowest first: each imports only what stands before it. A framework's folder stands
# above the last.
FLOORS = [
    "__init__",
    "device",
    "place",
    "guest",
    "modules",
    "wire",
    "process",
    "turns",
    "timeline",
    "double.current",
    "watch.__init__",
    "watch.imports",
    "watch.adapter",
    "watch.blocks",
    "watch.cost",
    "watch.length",
    "watch.memory",
    "watch.points",
    "watch.tests",
    "watch.suite",
    "watch.releases",
    "watch.logged",
    "watch.seeds",
    "watch.threads",
    "watch.frameworks",
]
# What asks the double, which stands beside what is watched and knows nothing of it; the order of its own files is its
# matter.
REHEARSING = ("watch.tests", "watch.suite", "watch.releases", "watch.torch.rehearsal")
# Programs of their own, which no file of the agent imports.
APART = ("attempt", "limits", "notebook")


def sources():
    """File, by its name from the agent on -> the files of the agent that it imports, wherever in it the import
    stands."""
    found = {}
    for folder, _, names in os.walk(AGENT):
        for name in names:
            if name.endswith(".py"):
                path = os.path.relpath(os.path.join(folder, name), AGENT)[:-3].replace(os.sep, ".")
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found[path] = ast.parse(f.read())
    return {path: {at for at in imported(path, tree, found) if at != path} for path, tree in found.items()}


def imported(path, tree, known):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = path.split(".")[: -node.level] if node.level else node.module.split(".")
            if not node.level and base[0] != "assay_agent":
                continue
            if not node.level:
                base = base[1:]
            elif node.module:
                base = base + node.module.split(".")
            for alias in node.names:
                whole = ".".join(base + [alias.name])
                yield (
                    whole
                    if whole in known
                    else ".".join(base)
                    if ".".join(base) in known
                    else ".".join(base + ["__init__"])
                )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "assay_agent":
                    yield ".".join(parts[1:]) if len(parts) > 1 else "__init__"


def test_files_import_what_stands_below_them():
    arrows = sources()
    assert arrows["watch.torch.autograd"] >= {"guest", "timeline", "watch.torch.module", "watch.torch.numerics"}, (
        "the reading finds arrows"
    )
    assert {"watch.frameworks", "watch.tests", "wire"} <= arrows["__init__"], "those within functions too"
    for path, targets in arrows.items():
        room = path.split(".")
        if path in REHEARSING:
            targets = {at for at in targets if not at.startswith("double.")}
        if path in FLOORS[1:]:
            below = FLOORS[: FLOORS.index(path)]
            assert targets <= set(below), "%s imports what stands above it" % path
        elif room[0] == "watch":
            assert room[1] in frameworks.FRAMEWORKS, "%s: say in FLOORS where it stands" % path
            own = {at for at in arrows if at.startswith("watch.%s." % room[1])}
            assert targets <= own | set(FLOORS[:-1]), "%s imports another framework's files" % path
        elif room[0] == "double":
            below = FLOORS[: FLOORS.index("timeline")]
            assert all(at.startswith("double.") or at in below for at in targets), "%s imports what is watched" % path
        elif room[0] == "levers":
            below = FLOORS[: FLOORS.index("watch.blocks")]
            assert all(at.startswith(("levers.", "watch.torch.", "watch.mlx.")) or at in below for at in targets), path
        elif room[0] == "signatures":
            below = FLOORS[: FLOORS.index("watch.blocks")]
            taken = ("signatures.", "watch.torch.", "double.current")
            assert all(at.startswith(taken) or at in below for at in targets), path
        elif room[0] == "steps":
            below = FLOORS[: FLOORS.index("watch.blocks")]
            assert all(at.startswith(("steps.", "watch.torch.")) or at in below for at in targets), path
        elif room[0] == "golden":
            assert all(at.startswith("golden.") for at in targets), "%s is a program of its own" % path
        elif room[0] == "replay":  # a program too, which may stand on the double
            allowed = ("replay.", "double.", "place", "wire")
            assert all(at.startswith(allowed) for at in targets), "%s is a program of its own" % path
        elif room[0] == "fleet":  # a program, and what it sends to the nodes
            assert all(at.startswith("fleet.") for at in targets), "%s is a program of its own" % path
        elif path not in APART:
            assert path == "__init__", "%s: say in FLOORS where it stands" % path
    graph = {at: to - {"__init__"} for at, to in arrows.items() if at != "__init__" and not at.startswith("double.")}
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_no_file_but_a_frameworks_own_names_it():
    """The timeline and what any framework uses would have to be changed for the second one otherwise."""
    for path in FLOORS[1:]:
        with open(os.path.join(AGENT, *path.split(".")) + ".py", encoding="utf-8") as f:
            tree = ast.parse(f.read())
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
            n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)
        }
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        for framework in frameworks.FRAMEWORKS:
            assert framework not in names, path
            assert framework not in texts or path == "watch.frameworks", path
