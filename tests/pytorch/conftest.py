"""One thread: models here are small, and machines are shared."""

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
