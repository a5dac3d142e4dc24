"""Named recipes as data: the powers of L that they prescribe, where they say so, and what their blocks are."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .choices import DepthChoices
from .depth import DepthScaling

HALF = sp.Rational(1, 2)
TRANSFORMER = ("its blocks are attention and MLP, of several matrices each, behind normalisation layers; the verdict "
               "is that of a block of one matrix, read for the last matrix of a branch with the others held fixed")
PREFACTOR = "the branches of a transformer count twice as many as its layers, a constant factor"


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe from a source.

    choices: what it sets, or None where target is given, a depth scaling that has to be realised for the optimizer
    asked for, or where no power of L for one matrix can say it (then ``outside`` says why). caveat: how its block
    differs from the block of one matrix without normalisation that verdicts are about.
    """

    name: str
    title: str
    source: str
    choices: DepthChoices | None = None
    target: DepthScaling | None = None
    caveat: str = ""
    outside: str = ""


def _powers(branch: object, lr: object, **more: object) -> DepthChoices:
    return DepthChoices(branch, lr, **more)  # type: ignore[arg-type]


NAMED = (
    NamedRecipe(
        "sp", "standard parametrization", "Tensor Programs VI, section 6, arXiv:2310.02244",
        _powers(0, 0), caveat="with normalisation in front of its blocks the stream grows like L^(1/2) at "
        "initialisation and not exponentially; that case is not covered"),
    NamedRecipe(
        "mup", "muP, which scales with width alone", "github.com/microsoft/mup; arXiv:2203.03466", _powers(0, 0),
        caveat="as for sp; its width rules leave the powers of L alone"),
    NamedRecipe(
        "depth-mup", "Depth-muP", "Tensor Programs VI, Claim 5.5, arXiv:2310.02244", target=DepthScaling()),
    NamedRecipe(
        "ode", "ODE limit", "Tensor Programs VI, Claim 5.4 and appendix L, arXiv:2310.02244",
        target=DepthScaling(1, 0)),
    NamedRecipe(
        "branch-only", "1/sqrt(L) branches, Adam's learning rate as it was, eps negligible",
        "github.com/marin-community/marin/issues/5177; Tensor Programs VI, figure 11, arXiv:2310.02244",
        _powers(-HALF, 0, eps=None), caveat=TRANSFORMER),
    NamedRecipe(
        "depth-mup-fixed-eps", "Depth-muP for Adam but for eps and weight decay, left as they were",
        "github.com/karpathy/nanoGPT/pull/607", _powers(-HALF, -HALF, eps=0, weight_decay=0), caveat=TRANSFORMER),
    NamedRecipe(
        "completep", "CompleteP", "github.com/EleutherAI/nanoGPT-mup/tree/completep; arXiv:2505.01618",
        _powers(-1, 0, optimizer="adamw", eps=-1, weight_decay=0), caveat=TRANSFORMER),
    NamedRecipe(
        "megatron-depth-mup", "depth_mup as proposed for Megatron-LM, its initialisation compensated",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1),
        caveat=f"{TRANSFORMER}; {PREFACTOR}"),
    NamedRecipe(
        "megatron-depth-mup-uncompensated", "the same on an initialisation of 1/sqrt(2 L)",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1, init=-HALF),
        caveat=f"{TRANSFORMER}; {PREFACTOR}"),
    NamedRecipe(
        "gpt-2", "GPT-2's initialisation 1/sqrt(2 L), learning rate as it was",
        "github.com/karpathy/nanoGPT, model.py", _powers(0, 0, optimizer="adamw", init=-HALF, weight_decay=0),
        caveat=f"{TRANSFORMER}; {PREFACTOR}"),
    NamedRecipe(
        "gpt-2-smaller-lr", "the same, learning rate 1/L", "a variation, no source",
        _powers(0, -1, optimizer="adamw", init=-HALF, weight_decay=0), caveat=f"{TRANSFORMER}; {PREFACTOR}"),
    NamedRecipe(
        "unit-scaling", "u-muP of unit-scaling, for Adam",
        "github.com/graphcore-research/unit-scaling, optim.py and core/functional.py; arXiv:2407.17465",
        _powers(-HALF, -HALF, eps=0, weight_decay=0, decay="independent", gradient=0),
        caveat=f"{TRANSFORMER}; its branch multiplier is applied behind the branch in the backward pass, so that "
        "gradients do not carry it; multipliers differ between layers by constant factors"),
    NamedRecipe(
        "fixup", "Fixup", "github.com/hongyi-zhang/Fixup, cifar/models; arXiv:1901.09321",
        outside="a block of m >= 2 matrices whose last one starts at zero and whose others start smaller by "
        "L^(-1/(2m - 2)): one matrix with one power of L cannot say that; the verdicts are not about it"),
)
