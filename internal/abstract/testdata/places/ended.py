from probe import here
import torch


def needs():
    if not torch.cuda.is_available():  # end
        return 1
    here()  # 


def asserts():
    assert torch.cuda.is_available()  # end
    here()  # 


def counts():
    if torch.cuda.device_count() == 0:  # end
        raise RuntimeError
    here()  # 


def goes_on():
    if not torch.cuda.is_available():
        x = 1
    here()  # in goes_on


def other():
    if not unheard_of:
        return 1
    here()  # in other, if not unheard_of


def left_out():
    if not torch.cuda.is_available():  # a test that is left out
        pytest.skip("no GPU")
        return
    here()  # 


needs()
asserts()
counts()
goes_on()
other()
left_out()
has_cuda = torch.cuda.is_available()
if not has_cuda:  # end
    raise SystemExit
here()  # top
