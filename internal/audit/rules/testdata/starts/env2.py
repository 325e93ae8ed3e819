import os
os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"  # sure: fallback-switched-on
import torch
