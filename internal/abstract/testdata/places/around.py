from probe import here
import torch

here()  # top
if unheard_of:
    here()  # maybe, if unheard_of
elif other > 1:
    here()  # maybe, if unheard_of, if other > 1
else:
    here()  # maybe, if unheard_of
here()  # top

if torch.cuda.is_available():
    here()  # 
else:
    here()  # top

if unheard_of:
    raise SystemExit
here()  # if unheard_of

for x in y:
    here()  # maybe, loops 1, if unheard_of
    for z in [a for b in x if b]:
        here()  # maybe, loops 2, if unheard_of
    if x:
        continue
    here()  # maybe, loops 1, if unheard_of, if x
while y:
    here()  # maybe, loops 1, if unheard_of
while False:
    here()  # 
[here() for b in x if b]  # loops 1, if unheard_of, if b
{here(): 1 for b in x}  # loops 1, if unheard_of
p and here()  # if unheard_of, if p
here() if p else 1  # maybe, if unheard_of, if p

with torch.no_grad(), torch.autocast("mps"):
    here()  # with torch.no_grad, with torch.autocast, if unheard_of
here()  # if unheard_of


def decorated():
    here()  # in decorated, with torch.no_grad, if unheard_of


decorated = decorated


@torch.no_grad()
def quiet():
    here()  # in quiet, with torch.no_grad, if unheard_of; then in quiet, main, with torch.inference_mode, with torch.no_grad, if unheard_of


def called():
    here()  # in called, maybe, loops 1, if unheard_of; then in called, main, if unheard_of


def never_called():
    here()  # in never_called, lone


with torch.no_grad():
    decorated()
quiet()
for x in y:
    called()
if __name__ == "__main__":
    here()  # main, if unheard_of
    called()
    with torch.inference_mode():
        quiet()

assert unheard_of.b
here()  # if unheard_of, if unheard_of.b
