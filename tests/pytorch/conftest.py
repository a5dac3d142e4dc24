"""One thread: models here are small, and machines are shared."""

try:
    import torch
except ImportError:  # every file here is skipped then
    pass
else:
    torch.set_num_threads(1)
