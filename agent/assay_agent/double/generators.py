"""Random numbers. Generators of MPS are CPU generators that say otherwise; which those are, the addresses in `_of_mps`
tell."""

import torch

from .current import current, inside

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

Base = torch._C.Generator
DEVICE = torch.device("mps", 0)
STATE = 5056  # bytes of a CPU generator's state
MAC_STATES = (28, 36, 44)  # bytes of a Mac's generator's state, by release

# addresses of the GeneratorImpl: PyTorch hands an operator another Python object for the same generator
_of_mps = set()


def is_of_mps(generator):
    return generator._cdata in _of_mps


class OfMPS(Base):
    def __new__(cls, device=None):
        made = Base.__new__(cls, "cpu")
        _of_mps.add(made._cdata)
        return made

    def __del__(self, forget=_of_mps.discard):  # bound: globals may be gone when the interpreter ends
        forget(self._cdata)

    @property
    def device(self):
        return DEVICE

    def set_state(self, new_state):
        return Base.set_state(self, usable(new_state))

    def clone_state(self):
        other = OfMPS()
        other.set_state(self.get_state())
        return other

    def __reduce__(self):
        return generator_of, ("mps",), (self.initial_seed(), self.get_state())

    def __setstate__(self, kept):
        Base.manual_seed(self, kept[0])
        Base.set_state(self, kept[1])


class Default(OfMPS):
    """A double's default generator: it shares the CPU's stream until the script parts them."""

    def manual_seed(self, seed):
        self.stream.shared = False
        Base.manual_seed(self, seed)
        return self

    def seed(self):
        self.stream.shared = False
        return Base.seed(self)

    def initial_seed(self):
        return torch.default_generator.initial_seed() if self.stream.shared else Base.initial_seed(self)

    def get_state(self):
        return torch.default_generator.get_state() if self.stream.shared else Base.get_state(self)

    def set_state(self, new_state):
        with inside():
            new_state = usable(new_state)
            Base.set_state(self, new_state)
            # Back where the CPU's generator is, as after torch.random.fork_rng: one stream again.
            self.stream.shared = torch.equal(new_state, torch.default_generator.get_state())
        return self

    def keep(self, new_state):
        Base.set_state(self, new_state)


for _cls in (OfMPS, Default):
    _cls.__name__ = _cls.__qualname__ = "Generator"
    _cls.__module__ = "torch._C"


def generator_of(device):
    """What a pickled generator is made anew with."""
    return torch.Generator(device=device)


def usable(new_state):
    """States of a Mac's generator are shorter than those of the CPU's: such a one seeds."""
    if not hasattr(new_state, "numel") or new_state.numel() == STATE or new_state.numel() not in MAC_STATES:
        return new_state  # and where it does not fit, PyTorch will say what is wrong with it
    current.double.note_use("a generator's state saved on a Mac was set: the double seeds itself from it, the numbers "
                            "are not the Mac's")
    seed = 0
    with inside():
        for byte in new_state.tolist():
            seed = (seed * 1099511628211 + byte) % (1 << 63)
        other = Base("cpu")
        other.manual_seed(seed)
        return other.get_state()


class Stream:
    """A double's stream of random numbers.

    MPS has a stream of its own. So that values stay those of a CPU run, bit for bit, it is the CPU's here until the
    script moves the two apart: seeds one alone, or sets one alone to a state that the other is not in. Then the CPU's
    generator stands for MPS's.
    """

    def __init__(self):
        self.shared = True  # it draws from the CPU's stream
        # this process was forked from one that had used the device: nothing parts the two, nothing joins them
        self.bad_fork = False
        self._default = None

    @property
    def default(self):
        """MPS's default generator."""
        if self._default is None:
            self._default = Default()
            self._default.stream = self
            with inside():
                Base.set_state(self._default, torch.default_generator.get_state())
        return self._default

    def seeded(self):
        """torch.manual_seed and torch.seed have seeded both streams alike: they are one again."""
        if not self.bad_fork:
            self.shared = True

    def drawn(self, func, args, kwargs):
        """What an operator on MPS draws."""
        if self.shared or self.bad_fork or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        cpu = torch.default_generator
        with inside():
            kept = cpu.get_state()
            cpu.set_state(self.default.get_state())
        try:
            return func(*args, **kwargs)
        finally:
            with inside():
                self.default.keep(cpu.get_state())
                cpu.set_state(kept)


def _checks(wanted, found, is_wanted, text):
    def check(args, kwargs):
        generator = kwargs.get("generator")
        if generator is not None and not is_wanted(generator):
            raise RuntimeError(text % (wanted, found))
    return check


def _is_of_cpu(generator):
    return not is_of_mps(generator)


# at::check_generator; at::native::randperm_out has words of its own. For operators on MPS, and on the CPU.
_KIND = "Expected a '%s' device type for generator but found '%s'"
_PLACE = "Expected a '%s' generator device but found '%s'"
check_generator = _checks("mps", "cpu", is_of_mps, _KIND)
check_randperm_generator = _checks("mps:0", "cpu", is_of_mps, _PLACE)


def check_randperm_generator_without_index(args, kwargs):
    """check_randperm_generator up to 2.1, where a generator of MPS says `mps` and never is where the result is:
    MPSGeneratorImpl; pytorch issue 106117."""
    generator = kwargs.get("generator")
    if generator is not None:
        raise RuntimeError(_PLACE % ("mps:0", "mps" if is_of_mps(generator) else "cpu"))


check_cpu_generator = _checks("cpu", "mps", _is_of_cpu, _KIND)
check_randperm_generator_on_cpu = _checks("cpu", "mps:0", _is_of_cpu, _PLACE)
