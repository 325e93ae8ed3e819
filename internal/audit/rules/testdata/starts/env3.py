import os
import torchvision
def setup():
    flag = "PYTORCH_ENABLE_MPS_FALLBACK"
    os.environ[flag] = str(1)  # sure: variable-set-too-late
setup()
