from probe import see
import argparse, copy, functools, os, sys, platform

# What is written
see(1)  # number 1
see(-1.5)  # number -1.5
see(1_000)  # number 1000
see("a" "b")  # text "ab"
see(f"x{1}")  # text "x1"
see(f"cuda:{rank}")  # text "cuda:0"
see(f"run {rank}")  # unknown
see(None)  # none
see(not None)  # true
see([1, "a"])  # list [number 1, text "a"]
see([1, *rest])  # list loose [number 1, unknown]
see(unheard_of)  # unknown
see(len)  # api builtins.len

# What is computed
see(2 + 3 * 4)  # number 14
see(7 // 2)  # number 3
see(1 / 0)  # unknown
see(1 // 0)  # unknown
see(2 ** 8)  # number 256
see("a" + "b")  # text "ab"
see("cuda:" + str(rank))  # text "cuda:0"
see("name:" + str(rank))  # unknown
see([1] + [2])  # list [number 1, number 2]
see([1, *rest] + [*rest])  # list strung [number 1, unknown, unknown]
see([1] + [*rest])  # list loose [number 1, unknown]
see([0] * 3)  # list [number 0, number 0, number 0]
see((1, 2)[1])  # number 2
see((1, 2)[-1])  # number 2
see((1, 2)[2])  # unknown
see([1, 1][rank:])  # list loose [number 1, number 1]
see({"a": 1}["a"])  # number 1
see({"a": 1}["b"])  # unknown
see({**{"a": 1}}["a"])  # number 1

# What is compared
see(1 < 2)  # true
see(1 == 2)  # false
see(1 != 2)  # true
see("a" in ("a", "b"))  # true
see("c" not in ["a", "b"])  # true
see("a" in [*rest])  # unknown
see("a" in ["a", rank])  # unknown
see("u" in "cuda")  # true
see(None is None)  # true
see(1 is None)  # unknown
see("a" is None)  # unknown
see(rank is None)  # unknown
see(1 < 2 < 3)  # unknown
see(True and 5)  # number 5
see(0 or "a")  # text "a"
see(rank or "a")  # unknown
see(rank and "a")  # text "a" soft
see(rank and 1)  # unknown
see(True or rank)  # true
see(False and rank)  # false
see(1 if True else 2)  # number 1
see("cpu" if rank else "mps")  # device cpu or mps

# Functions of Python's own
see(str(3))  # text "3"
see(str(rank))  # unknown
see(bool([]))  # unknown
see(bool("x"))  # true
see(dict(a=1)["a"])  # number 1
see(enumerate([1]))  # list enumerated [list [number 1]]
see(zip([1], ["a"]))  # list zipped [list [number 1], list [text "a"]]
see(range(3))  # list counted [number soft]
see(range(0))  # list empty []
see(range(0, 5))  # list counted [number soft]
see(next(iter([1])))  # number 1
see(sorted((2,)))  # list [number 2]
see(list(iterable=(2,)))  # list [number 2]
see(getattr("x", name))  # unknown
see(getattr(os, "environ"))  # api os.environ
see(getattr(os, "environ", None))  # unknown
see(hasattr(os, "fork"))  # unknown
see("CUDA".lower())  # text "cuda"
see("cuda:0".startswith("cuda"))  # true
see("cuda:{}".format(rank))  # text "cuda:0"
see("run:{}".format(rank))  # unknown
see({"a": 1}.get("a"))  # number 1
see({"a": 1}.get("b", 2))  # number 2 soft
see({"a": 1}.values())  # list loose [number 1]
see({"a": 1}.items())  # unknown
see(dict.get({"a": 1}, "a"))  # unknown
see(copy.copy("a"))  # text "a"
see(os.environ.get("A", "b"))  # text "b" soft
see(os.environ["A"])  # text "" soft
see(os.getenv("A"))  # unknown
see(sys.exit())  # never
see(sys.platform)  # text "darwin"
see(platform.machine())  # text "arm64"
see(os.name)  # text "posix"

half = functools.partial(dict, a=1)
see(half()["a"])  # number 1
see(half(a=2)["a"])  # number 2
words = []
words.append("a")
see(words)  # list loose [text "a"]
see(words[0])  # text "a"

# Options of the command line are what a user may say otherwise
parser = argparse.ArgumentParser()
group = parser.add_argument_group("more")
parser.add_argument("name", "-n", "--device-name", default="cuda")
group.add_argument("--lr", default=0.1)
parser.add_argument("--no-cuda", action="store_true")
parser.add_argument("-k", "--keep", dest="held", action="store_false")
parser.add_argument("--nothing", default=None)
parser.set_defaults(seed=1)
args = parser.parse_args()
see(args.device_name)  # text "cuda" soft
see(args.lr)  # number 0.1 soft
see(args.no_cuda)  # false soft
see(args.held)  # true soft
see(args.nothing)  # unknown
see(args.seed)  # number 1 soft
see(args.device_name == "cuda")  # unknown
see(1 if args.no_cuda else 2)  # unknown
see(1 if args.device_name else 2)  # unknown
see(args.other)  # unknown
known, rest = parser.parse_known_args()
see(known.lr)  # number 0.1 soft
see(argparse.ArgumentParser.parse_args(parser))  # unknown

# Two ways lead here
if rank:
    a, b, c, d = "cpu", None, 1, "x"
else:
    a, b, c = "mps", "late", "one"
see(a)  # device cpu or mps
see(b)  # text "late" or none
see(c)  # unknown
see(d)  # text "x"
see(b and 1)  # unknown
see(b is None)  # unknown
if rank:
    flag = True
else:
    flag = False
see(flag)  # false soft
see(not flag)  # unknown
del d
see(d)  # unknown
exec(text)
see(a)  # device cpu or mps soft
name = "cuda"
exec(text)
see(name)  # text "cuda" soft
