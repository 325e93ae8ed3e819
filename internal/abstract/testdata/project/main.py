from probe import see
import torch
import helper
import package.deep
from helper import make, CONSTANT as C, missing, LATE
from package import thing, submodule
from stars import *
from helper import make as again
import absent
from str import lower

see(make())  # tensor mps float32 sized
see(again())  # tensor mps float32 sized
see(C)  # number 5
see(LATE)  # text "after"
see(missing)  # unknown
see(helper.CONSTANT)  # number 5
see(helper.unheard_of)  # unknown
see(helper.Thing().value())  # number 7
see(package.deep.DEPTH)  # number 3
see(thing)  # text "thing"
see(submodule.NAME)  # text "sub"
see(open_star)  # number 1
see(_hidden)  # unknown
see(second_star)  # number 2
see(lower("A"))  # unknown
see(absent.x)  # api absent.x
see(helper.circle())  # unknown
see(helper.CHOSEN)  # device cpu or mps
see(helper.torch)  # api torch
