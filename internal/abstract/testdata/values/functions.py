from probe import see
import torch


def same(x, y=2, *rest, key=3, **more):
    see(y)  # number 2; then number 5; then number 2 soft
    see(key)  # number 3; then number 7; then number 3 soft
    see(rest)  # list []; then list [number 6]
    return x


see(same(1))  # number 1
see(same("a", 5, 6, key=7))  # text "a"
see(same(*[1, 2]))  # list [number 1, number 2]
see(same(**{"x": 9}))  # number 9
see(same(*unheard_of))  # unknown


def either(x):
    if x.a:
        return "cpu"
    return "mps"


see(either(o))  # device cpu or mps


def nothing():
    pass


see(nothing())  # none


def numbers():
    yield 1


see(numbers())  # unknown

see((lambda x: x)(4))  # number 4


def annotated(x: torch.Tensor, n: "int", o: torch.nn.Module, g: torch.optim.SGD, d: torch.device):
    see(x)  # tensor open
    see(o)  # module open
    see(g)  # optimizer torch.optim.SGD
    see(d)  # device open


def guessed(model, train_loader, optimizer, device, other, device2="cpu", flag=None):
    see(model)  # module open soft
    see(train_loader)  # loader soft
    see(optimizer)  # optimizer  soft
    see(device)  # device open soft
    see(other)  # unknown
    see(device2)  # text "cpu" soft
    see(flag)  # unknown


def fib(n):  # a function that calls itself is not followed again
    return fib(n)


see(fib(1))  # unknown



def count(n):
    see(n)  # number 1
    return count(n + 1)


see(count(1))  # unknown


def innermost(x):
    return x[0][0]


see(innermost([["a"]]))  # text "a"
see(innermost([["b"]]))  # text "b"


def made():
    return torch.zeros(3)


see(made())  # tensor cpu float32 sized
torch.set_default_device("mps")
see(made())  # tensor mps float32 sized
torch.set_default_device(None)
see(made())  # tensor cpu float32 sized

place = "cpu"
try:
    place = "mps"
    unheard_of()
except RuntimeError:
    see(place)  # device cpu or mps

place = "cpu"
for turn in unheard_of:
    see(place)  # device cpu or mps
    place = "mps"

counter = 1


def change():
    global counter
    counter = "late"


change()
see(counter)  # unknown


def deep1(x): return deep2(x)
def deep2(x): return deep3(x)
def deep3(x): return deep4(x)
def deep4(x): return deep5(x)
def deep5(x): return deep6(x)
def deep6(x): return deep7(x)
def deep7(x): return deep8(x)
def deep8(x): return x
def deep0(x): return deep1(x)


see(deep1(1))  # number 1
see(deep0(2))  # unknown
