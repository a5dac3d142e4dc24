"""Named recipes as data: the powers of L that they prescribe, where they say so, and the blocks that they are for."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .choices import DepthChoices
from .depth import DepthScaling

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
ZERO = ("in which the last matrix of a block starts at zero and the others start smaller: no power of L for one matrix "
        "says that")
NUMBER = "in which a number in front of a branch starts at zero and is trained: no power of L for one matrix says that"
UNNORMED = "of its blocks the MLP is judged, without a norm"
OUT, IN = sp.symbols("fan_out fan_in", positive=True)  # of a matrix, in factors of its update


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe from a source.

    choices: what it sets for every matrix of a block, but that an initialization with a power of its own is that of
    the matrices in ``scaled`` alone, their names, or "last", of every branch; None where target is given, a depth
    scaling that has to be realized for the optimizer asked for. own: of what has settings of its own, by name; zero:
    what starts at zero; sized: whose initial size makes alpha, where no branch multiplier is set. outside: why no power
    of L for one matrix says it, where none does. block: the source's, as far as there are verdicts on it; caveat: what
    of the source's block that is not; factor: what updates are multiplied with, by the matrix's fan-out and fan-in.
    """

    name: str
    title: str
    source: str
    choices: DepthChoices | None = None
    target: DepthScaling | None = None
    caveat: str = ""
    outside: str = ""
    block: str = ONE
    scaled: str | tuple[str, ...] = "last"
    factor: sp.Expr | None = None
    own: tuple[tuple[str, DepthChoices], ...] = ()
    zero: tuple[str, ...] = ()
    sized: str = ""


def _powers(branch: object, lr: object, **more: object) -> DepthChoices:
    return DepthChoices(branch, lr, **more)  # type: ignore[arg-type]


BETA = ("Wv", "Wo", "W1", "W2")  # what DeepNorm starts smaller
GROWN = sp.sqrt(sp.Max(1, OUT / IN))

NAMED = (
    NamedRecipe(
        "sp", "standard parametrization", "Tensor Programs VI, section 6, arXiv:2310.02244", _powers(0, 0)),
    NamedRecipe(
        "mup", "muP, which scales with width alone", "github.com/microsoft/mup; arXiv:2203.03466", _powers(0, 0),
        caveat=f"{TRANSFORMER}; its width rules leave the powers of L alone", block=LAYER),
    NamedRecipe(
        "depth-mup", "Depth-muP", "Tensor Programs VI, Claim 5.5, arXiv:2310.02244", target=DepthScaling()),
    NamedRecipe(
        "ode", "ODE limit", "Tensor Programs VI, Claim 5.4 and appendix L, arXiv:2310.02244",
        target=DepthScaling(1, 0)),
    NamedRecipe(
        "branch-only", "1/sqrt(L) branches, Adam's learning rate as it was, eps negligible",
        "github.com/marin-community/marin/issues/5177; Tensor Programs VI, figure 11, arXiv:2310.02244",
        _powers(-HALF, 0, eps=None), caveat=TRANSFORMER, block=LAYER),
    NamedRecipe(
        "depth-mup-fixed-eps", "Depth-muP for Adam but for eps and weight decay, left as they were",
        "github.com/karpathy/nanoGPT/pull/607", _powers(-HALF, -HALF, eps=0, weight_decay=0), caveat=TRANSFORMER,
        block=LAYER),
    NamedRecipe(
        "completep", "CompleteP", "github.com/EleutherAI/nanoGPT-mup/tree/completep; arXiv:2505.01618",
        _powers(-1, 0, optimizer="adamw", eps=-1, weight_decay=0), caveat=TRANSFORMER, block=LAYER),
    NamedRecipe(
        "megatron-depth-mup", "depth_mup as proposed for Megatron-LM, its initialization compensated",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "megatron-depth-mup-uncompensated", "the same on an initialization of 1/sqrt(2 L)",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1, init=-HALF),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "gpt-2", "GPT-2's initialization 1/sqrt(2 L), learning rate as it was",
        "github.com/karpathy/nanoGPT, model.py", _powers(0, 0, optimizer="adamw", init=-HALF, weight_decay=0),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=LAYER),
    NamedRecipe(
        "gpt-2-smaller-lr", "the same, learning rate 1/L", "a variation, no source",
        _powers(0, -1, optimizer="adamw", init=-HALF, weight_decay=0), caveat=f"{TRANSFORMER}; {PREFACTOR}",
        block=LAYER),
    NamedRecipe(
        "unit-scaling", "u-muP of unit-scaling, for Adam",
        "github.com/graphcore-research/unit-scaling, optim.py and core/functional.py; arXiv:2407.17465",
        _powers(-HALF, -HALF, eps=0, weight_decay=0, decay="independent", gradient=0),
        caveat=f"{TRANSFORMER}; its branch multiplier is applied behind the branch in the backward pass, so that "
        "gradients do not carry it; multipliers differ between layers by constant factors", block=LAYER),
    NamedRecipe(
        "deepnorm", "DeepNorm as it is derived, for gradient descent",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        _powers(-HALF / 2, 0, optimizer="sgd", init=-HALF / 2), caveat=f"{AFTER}; a stream times L^(1/4) before "
        "its norm is a branch times L^(-1/4), and its constants, (2 L)^(1/4) and (8 L)^(-1/4), "
        "make what updates do to all 2 L branches add up to 1", block=POST_NORM, scaled=BETA),
    NamedRecipe(
        "deepnorm-adam", "DeepNorm as it is trained, by Adam, eps negligible",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        _powers(-HALF / 2, 0, init=-HALF / 2, eps=None), caveat=f"{AFTER}; warm-up is of order one",
        block=POST_NORM, scaled=BETA),
    NamedRecipe(
        "muon", "Muon, updates times max(1, fan-out / fan-in)^(1/2)", "github.com/KellerJordan/Muon, muon.py",
        _powers(0, 0, optimizer="muon"), caveat=TRANSFORMER, block=LAYER, factor=GROWN),
    NamedRecipe(
        "muon-spectral", "Muon, updates of spectral norm (fan-out / fan-in)^(1/2)", "arXiv:2409.20325; "
        "arXiv:2310.17813", _powers(0, 0, optimizer="muon"), caveat=f"{TRANSFORMER}; Megatron-LM calls this "
        "unit_rms_norm, and another factor spectral", block=LAYER, factor=sp.sqrt(OUT / IN)),
    NamedRecipe(
        "muon-unit-rms", "Muon, updates whose entries have the size of Adam's, 0.2 max(fan-out, fan-in)^(1/2)",
        "github.com/MoonshotAI/Moonlight; arXiv:2502.16982", _powers(0, 0, optimizer="muon"),
        caveat=f"{TRANSFORMER}; Megatron-LM calls this factor, but for the 0.2, spectral, and another one "
        "unit_rms_norm",
        block=LAYER, factor=sp.sqrt(sp.Max(OUT, IN)) / 5),
    NamedRecipe(
        "megatron-muon-spectral", "Muon as Megatron-LM's spectral scales it, updates times max(fan-out, fan-in)^(1/2)",
        "github.com/NVIDIA/Megatron-LM/pull/3715", _powers(0, 0, optimizer="muon"),
        caveat=f"{TRANSFORMER}; it is 'muon-unit-rms' but for a constant, and not 'muon-spectral': names mean the "
        "opposite there", block=LAYER, factor=sp.sqrt(sp.Max(OUT, IN))),
    NamedRecipe(
        "megatron-muon-unit-rms-norm", "Muon as Megatron-LM's unit_rms_norm scales it, updates times "
        "(fan-out / fan-in)^(1/2)", "github.com/NVIDIA/Megatron-LM/pull/3715", _powers(0, 0, optimizer="muon"),
        caveat=f"{TRANSFORMER}; it is 'muon-spectral', and not 'muon-unit-rms': names mean the opposite there",
        block=LAYER, factor=sp.sqrt(OUT / IN)),
    NamedRecipe(
        "fixup", "Fixup, of blocks of two matrices", "github.com/hongyi-zhang/Fixup, cifar/models; arXiv:1901.09321",
        _powers(0, 0, optimizer="momentum", init=-HALF), caveat=FIXED_UP, block=FROM_ZERO, scaled=("W1",),
        zero=("W2",), outside=ZERO),
    NamedRecipe(
        "fixup-bottleneck", "Fixup, of blocks of three matrices",
        "github.com/hongyi-zhang/Fixup, imagenet/models; arXiv:1901.09321",
        _powers(0, 0, optimizer="momentum", init=-HALF / 2), caveat=FIXED_UP, block=BOTTLENECK, scaled=("W1", "W2"),
        zero=("W3",), outside=ZERO),
    NamedRecipe(
        "rezero", "ReZero, by gradient descent", "github.com/majumderb/rezero; arXiv:2003.04887",
        _powers(0, 0, optimizer="momentum"), own=(("a", _powers(0, 0, optimizer="momentum")),), zero=("a",),
        caveat=f"at finite width the number in front has a gradient, n^(-1/2) times one of order one; {UNNORMED}",
        block=GATED, outside=NUMBER),
    NamedRecipe(
        "rezero-adam", "ReZero, by Adam, eps negligible", "github.com/majumderb/rezero; arXiv:2003.04887",
        _powers(0, 0, eps=None), own=(("a", _powers(0, 0, eps=None)),), zero=("a",),
        caveat="the first update of the number in front is by the sign of a fluctuation, which no other matrix's law "
        "tells from its opposite, and makes it a branch multiplier; later ones are as large; at width n the first "
        f"changes outputs by its rate times L n^(-1/2); {UNNORMED}", block=GATED, outside=NUMBER),
    NamedRecipe(
        "layerscale", "LayerScale, a trained multiplier for every coordinate, as it is at one depth",
        "github.com/facebookresearch/deit, cait_models.py; arXiv:2103.17239",
        _powers(0, 0, optimizer="adamw", eps=0, weight_decay=0),
        own=(("s", _powers(0, 0, optimizer="adamw", eps=0)),),
        caveat="it starts at 0.1, 1e-5 or 1e-6 by ranges of the depth, which is no power of L; of its blocks the MLP "
        "is judged, behind a norm without gains; attention has such a multiplier too",
        block=SCALED, sized="s", outside="in which every coordinate has a trained multiplier: no power of L for one "
        "matrix says its size at first and its rate"),
)
