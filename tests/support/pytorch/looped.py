"""Models in PyTorch whose forward pass comes back to layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH = 32


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(torch.tanh(self.up(x / x.square().mean(-1, keepdim=True).sqrt())))


class Loop(nn.Module):
    """``layers`` blocks, in ``visits`` cycles or each as often in a row; once: blocks that no loop comes back to."""

    def __init__(self, layers: int = 2, visits: int = 2, width: int = WIDTH, row: bool = False, once: int = 0) -> None:
        super().__init__()
        self.read, self.write = nn.Linear(8, width, bias=False), nn.Linear(width, 4, bias=False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.first = nn.ModuleList(Block(width) for _ in range(once))
        self.way = [l for l in range(layers) for _ in range(visits)] if row else list(range(layers)) * visits

    def forward(self, x: Any) -> Any:
        x = self.read(x)
        for block in (*self.first, *(self.blocks[number] for number in self.way)):
            x = x + block(x)
        return self.write(x)
