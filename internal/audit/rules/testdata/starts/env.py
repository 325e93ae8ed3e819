import os
import torch
from os import environ
os.environ.update({"PYTORCH_ENABLE_MPS_FALLBACK": "1"})  # sure: variable-set-too-late
environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = "3.0"  # sure: variable-value
os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = "1.9"
os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = "0.5"  # sure: variable-value
os.environ.setdefault("PYTORCH_MPS_LOG_LEVEL", "3")  # sure: unread-variable
os.environ["PYTORCH_MPS_ALLOC_CONF"] = "max_split_size_mb:128"  # sure: unread-variable
ratio = 0.0
os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = str(ratio)  # sure: variable-value
torch.mps.set_per_process_memory_fraction(3.5)  # sure: variable-value
