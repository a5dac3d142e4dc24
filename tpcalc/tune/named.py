"""Named recipes as data: the powers of L that they prescribe, where they say so, and the blocks that they are for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping

import sympy as sp

from .._types import Value
from ..scaling import DepthScaling, Powers
from ..programs.algebra import power_of

HALF = sp.Rational(1, 2)
# Blocks that there are verdicts on, in words.
ONE, MLP, LAYER = "one matrix", "MLP behind a norm", "attention and MLP, norms before"
POST_NORM, SCALED = "attention and MLP, norms after", "MLP behind a norm, scaled"
FROM_ZERO, BOTTLENECK, GATED = "MLP from zero", "MLP of three from zero", "MLP behind a number"
TRANSFORMER = "gains of its norms, and that they center, are in no verdict"
AFTER = (f"{TRANSFORMER}; norms of a stream of order one change no power of L, so that they are judged before "
         "branches")
PREFACTOR = "the branches of a transformer count twice as many as its layers, a constant factor"
FIXED_UP = ("multipliers and biases, numbers of a layer each, are in no verdict; of blocks of m matrices the first "
            "m - 1 start L^(-1/(2 m - 2)) times as large")
UNNORMED = "of its blocks the MLP is judged, without a norm"
OUT, IN = sp.symbols("fan_out fan_in", positive=True)  # of a matrix, in factors of its update


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe from a source.

    powers: of L, what it sets for the parameters of a layer, by name, role or pattern as in ``tp.Parametrization``;
    None where target is given, a depth scaling that has to be realized for the optimizer asked for. optimizer: that of
    the source, "" for any; decay: what its weight decay does; gradient: the power of all gradients, where a backward
    pass has a scale of its own. zero: what starts at zero; sized: whose initial size makes alpha, where no branch
    multiplier is set. block: the source's, as far as there are verdicts on it; caveat: what of the source's block that
    is not; factor: what updates are multiplied with, by the matrix's fan-out and fan-in.
    """

    name: str
    title: str
    source: str
    powers: Mapping[str, Powers] | None = None
    target: DepthScaling | None = None
    optimizer: str = "adam"
    decay: str = "decoupled"
    gradient: sp.Expr | None = None
    caveat: str = ""
    block: str = ONE
    factor: sp.Expr | None = None
    zero: tuple[str, ...] = ()
    sized: str = ""

    @property
    def outside(self) -> str:
        """Why no power of L for one matrix says it, "" where one does."""
        if self.zero:
            return (f"in which {', '.join(self.zero)} starts at zero: no power of L for the matrices of a layer says "
                    "that")
        return f"in which {self.sized}, a trained multiplier of every coordinate, has powers of its own" if (
            self.sized) else ""


def width_of(factor: sp.Expr | None) -> sp.Expr:
    """The power of n by which updates of n x n matrices exceed spectral norm 1, which keeps activations of order one.

    factor: of an orthogonal matrix, whose norm is 1, by fan-out and fan-in; None: nothing to count.

    >>> width_of(sp.sqrt(sp.Max(OUT, IN))), width_of(sp.sqrt(OUT / IN)), width_of(None)
    (1/2, 0, 0)
    """
    if factor is None:
        return sp.Integer(0)
    n = sp.Symbol("n", positive=True)
    return power_of(factor.subs({OUT: n, IN: n}), n)


def _powers(lr: Value = 0, init: Value = 0, multiplier: Value = 0, **more: Value) -> Powers:
    """Powers of L; eps and decay, which are not there where they are left out: 0 a fixed one."""
    found: dict[str, Value] = {"lr": lr, "init": init, "multiplier": multiplier, **more}
    return Powers(**{name: {"L": power} for name, power in found.items()})


def _branch(power: Value) -> dict[str, Powers]:
    """A power of the number in front of branches."""
    return {"branch": _powers(multiplier=power)}


GROWN = sp.sqrt(sp.Max(1, OUT / IN))
LEFT, EPS_LEFT = _powers(), _powers(eps=0)  # all as it was
WITH_DECAY = _powers(eps=0, decay=0)
SMALLER = {"*": WITH_DECAY, "last": _powers(init=-HALF, eps=0, decay=0)}
BETA = "W[vo12]"  # what DeepNorm starts smaller

NAMED = (
    NamedRecipe(
        "sp", "standard parametrization", "Tensor Programs VI, section 6, arXiv:2310.02244", {"*": EPS_LEFT}),
    NamedRecipe(
        "mup", "muP, which scales with width alone", "github.com/microsoft/mup; arXiv:2203.03466", {"*": EPS_LEFT},
        caveat=f"{TRANSFORMER}; its width rules leave the powers of L alone", block=LAYER),
    NamedRecipe(
        "depth-mup", "Depth-muP", "Tensor Programs VI, Claim 5.5, arXiv:2310.02244", target=DepthScaling()),
    NamedRecipe(
        "ode", "ODE limit", "Tensor Programs VI, Claim 5.4 and appendix L, arXiv:2310.02244",
        target=DepthScaling(1, 0)),
    NamedRecipe(
        "branch-only", "1/sqrt(L) branches, Adam's learning rate as it was, eps negligible",
        "github.com/marin-community/marin/issues/5177; Tensor Programs VI, figure 11, arXiv:2310.02244",
        {**_branch(-HALF), "*": LEFT}, caveat=TRANSFORMER, block=LAYER),
    NamedRecipe(
        "depth-mup-fixed-eps", "Depth-muP for Adam but for eps and weight decay, left as they were",
        "github.com/karpathy/nanoGPT/pull/607", {**_branch(-HALF), "*": _powers(-HALF, eps=0, decay=0)},
        caveat=TRANSFORMER, block=LAYER),
    NamedRecipe(
        "completep", "CompleteP", "github.com/EleutherAI/nanoGPT-mup/tree/completep; arXiv:2505.01618",
        {**_branch(-1), "*": _powers(eps=-1, decay=0)}, optimizer="adamw", caveat=TRANSFORMER, block=LAYER),
    NamedRecipe(
        "megatron-depth-mup", "depth_mup as proposed for Megatron-LM, its initialization compensated",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", {**_branch(-1), "*": _powers(eps=-1)},
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "megatron-depth-mup-uncompensated", "the same on an initialization of 1/sqrt(2 L)",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999",
        {**_branch(-1), "*": _powers(eps=-1), "last": _powers(init=-HALF, eps=-1)},
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "gpt-2", "GPT-2's initialization 1/sqrt(2 L), learning rate as it was",
        "github.com/karpathy/nanoGPT, model.py", SMALLER, optimizer="adamw", caveat=f"{TRANSFORMER}; {PREFACTOR}",
        block=LAYER),
    NamedRecipe(
        "gpt-2-smaller-lr", "the same, learning rate 1/L", "a variation, no source",
        {name: replace(one, lr={"L": -1}) for name, one in SMALLER.items()}, optimizer="adamw",
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "unit-scaling", "u-muP of unit-scaling, for Adam",
        "github.com/graphcore-research/unit-scaling, optim.py and core/functional.py; arXiv:2407.17465",
        {**_branch(-HALF), "*": _powers(-HALF, eps=0, decay=0)}, decay="independent", gradient=sp.Integer(0),
        caveat=f"{TRANSFORMER}; its branch multiplier is applied behind the branch in the backward pass, so that "
        "gradients do not carry it; multipliers differ between layers by constant factors", block=LAYER),
    NamedRecipe(
        "deepnorm", "DeepNorm as it is derived, for gradient descent",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        {**_branch(-HALF / 2), "*": LEFT, BETA: _powers(init=-HALF / 2)}, optimizer="sgd",
        caveat=f"{AFTER}; a stream times L^(1/4) before "
        "its norm is a branch times L^(-1/4), and its constants, (2 L)^(1/4) and (8 L)^(-1/4), "
        "make what updates do to all 2 L branches add up to 1", block=POST_NORM),
    NamedRecipe(
        "deepnorm-adam", "DeepNorm as it is trained, by Adam, eps negligible",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        {**_branch(-HALF / 2), "*": LEFT, BETA: _powers(init=-HALF / 2)},
        caveat=f"{AFTER}; warm-up is of order one", block=POST_NORM),
    NamedRecipe(
        "muon", "Muon, updates times max(1, fan-out / fan-in)^(1/2)", "github.com/KellerJordan/Muon, muon.py",
        {"*": LEFT}, optimizer="muon", caveat=TRANSFORMER, block=LAYER, factor=GROWN),
    NamedRecipe(
        "muon-spectral", "Muon, updates of spectral norm (fan-out / fan-in)^(1/2)", "arXiv:2409.20325; "
        "arXiv:2310.17813", {"*": LEFT}, optimizer="muon", caveat=f"{TRANSFORMER}; Megatron-LM calls this "
        "unit_rms_norm, and another factor spectral", block=LAYER, factor=sp.sqrt(OUT / IN)),
    NamedRecipe(
        "muon-unit-rms", "Muon, updates whose entries have the size of Adam's, 0.2 max(fan-out, fan-in)^(1/2)",
        "github.com/MoonshotAI/Moonlight; arXiv:2502.16982", {"*": LEFT}, optimizer="muon",
        caveat=f"{TRANSFORMER}; Megatron-LM calls this factor, but for the 0.2, spectral, and another one "
        "unit_rms_norm", block=LAYER, factor=sp.sqrt(sp.Max(OUT, IN)) / 5),
    NamedRecipe(
        "megatron-muon-spectral", "Muon as Megatron-LM's spectral scales it, updates times max(fan-out, fan-in)^(1/2)",
        "github.com/NVIDIA/Megatron-LM/pull/3715", {"*": LEFT}, optimizer="muon",
        caveat=f"{TRANSFORMER}; it is 'muon-unit-rms' but for a constant, and not 'muon-spectral': names mean the "
        "opposite there", block=LAYER, factor=sp.sqrt(sp.Max(OUT, IN))),
    NamedRecipe(
        "megatron-muon-unit-rms-norm", "Muon as Megatron-LM's unit_rms_norm scales it, updates times "
        "(fan-out / fan-in)^(1/2)", "github.com/NVIDIA/Megatron-LM/pull/3715", {"*": LEFT}, optimizer="muon",
        caveat=f"{TRANSFORMER}; it is 'muon-spectral', and not 'muon-unit-rms': names mean the opposite there",
        block=LAYER, factor=sp.sqrt(OUT / IN)),
    NamedRecipe(
        "fixup", "Fixup, of blocks of two matrices", "github.com/hongyi-zhang/Fixup, cifar/models; arXiv:1901.09321",
        {"*": LEFT, "W1": _powers(init=-HALF)}, optimizer="momentum", caveat=FIXED_UP, block=FROM_ZERO, zero=("W2",)),
    NamedRecipe(
        "fixup-bottleneck", "Fixup, of blocks of three matrices",
        "github.com/hongyi-zhang/Fixup, imagenet/models; arXiv:1901.09321",
        {"*": LEFT, "W[12]": _powers(init=-HALF / 2)}, optimizer="momentum", caveat=FIXED_UP, block=BOTTLENECK,
        zero=("W3",)),
    NamedRecipe(
        "rezero", "ReZero, by gradient descent", "github.com/majumderb/rezero; arXiv:2003.04887",
        {"*": LEFT, "a": LEFT}, optimizer="momentum", zero=("a",),
        caveat=f"at finite width the number in front has a gradient, n^(-1/2) times one of order one; {UNNORMED}",
        block=GATED),
    NamedRecipe(
        "rezero-adam", "ReZero, by Adam, eps negligible", "github.com/majumderb/rezero; arXiv:2003.04887",
        {"*": LEFT, "a": LEFT}, zero=("a",),
        caveat="the first update of the number in front is by the sign of a fluctuation, which no other matrix's law "
        "tells from its opposite, and makes it a branch multiplier; later ones are as large; at width n the first "
        f"changes outputs by its rate times L n^(-1/2); {UNNORMED}", block=GATED),
    NamedRecipe(
        "layerscale", "LayerScale, a trained multiplier for every coordinate, as it is at one depth",
        "github.com/facebookresearch/deit, cait_models.py; arXiv:2103.17239",
        {"*": WITH_DECAY, "s": EPS_LEFT}, optimizer="adamw",
        caveat="it starts at 0.1, 1e-5 or 1e-6 by ranges of the depth, which is no power of L; of its blocks the MLP "
        "is judged, behind a norm without gains; attention has such a multiplier too",
        block=SCALED, sized="s"),
)
