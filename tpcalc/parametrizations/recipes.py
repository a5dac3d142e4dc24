"""Named recipes as data: the powers of L that they prescribe, where they say so, and the blocks that they are for."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .choices import DepthChoices
from .depth import DepthScaling

HALF = sp.Rational(1, 2)
ONE, MLP, POST_NORM = "one matrix", "MLP behind a norm", "MLP, then a norm"  # blocks that there are verdicts on
TRANSFORMER = "of its blocks the MLP is judged, behind a norm without gains that does not centre; attention is not"
AFTER = "of its blocks the MLP is judged, before a norm without gains that does not centre; attention is not"
PREFACTOR = "the branches of a transformer count twice as many as its layers, a constant factor"
OUT, IN = sp.symbols("fan_out fan_in", positive=True)  # of a matrix, in factors of its update


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe from a source.

    choices: what it sets for every matrix of a block, but that an initialisation with a power of its own is that of
    the matrices in ``scaled`` alone, "last" or "all"; None where target is given, a depth scaling that has to be
    realised for the optimizer asked for, or where powers of L cannot say it (then ``outside`` says why). block: the
    source's, as far as there are verdicts on it; caveat: what of the source's block that is not; factor: what updates
    are multiplied with, by the matrix's fan-out and fan-in.
    """

    name: str
    title: str
    source: str
    choices: DepthChoices | None = None
    target: DepthScaling | None = None
    caveat: str = ""
    outside: str = ""
    block: str = ONE
    scaled: str = "last"
    factor: sp.Expr | None = None


def _powers(branch: object, lr: object, **more: object) -> DepthChoices:
    return DepthChoices(branch, lr, **more)  # type: ignore[arg-type]


GROWN = sp.sqrt(sp.Max(1, OUT / IN))

NAMED = (
    NamedRecipe(
        "sp", "standard parametrization", "Tensor Programs VI, section 6, arXiv:2310.02244", _powers(0, 0)),
    NamedRecipe(
        "mup", "muP, which scales with width alone", "github.com/microsoft/mup; arXiv:2203.03466", _powers(0, 0),
        caveat=f"{TRANSFORMER}; its width rules leave the powers of L alone", block=MLP),
    NamedRecipe(
        "depth-mup", "Depth-muP", "Tensor Programs VI, Claim 5.5, arXiv:2310.02244", target=DepthScaling()),
    NamedRecipe(
        "ode", "ODE limit", "Tensor Programs VI, Claim 5.4 and appendix L, arXiv:2310.02244",
        target=DepthScaling(1, 0)),
    NamedRecipe(
        "branch-only", "1/sqrt(L) branches, Adam's learning rate as it was, eps negligible",
        "github.com/marin-community/marin/issues/5177; Tensor Programs VI, figure 11, arXiv:2310.02244",
        _powers(-HALF, 0, eps=None), caveat=TRANSFORMER, block=MLP),
    NamedRecipe(
        "depth-mup-fixed-eps", "Depth-muP for Adam but for eps and weight decay, left as they were",
        "github.com/karpathy/nanoGPT/pull/607", _powers(-HALF, -HALF, eps=0, weight_decay=0), caveat=TRANSFORMER,
        block=MLP),
    NamedRecipe(
        "completep", "CompleteP", "github.com/EleutherAI/nanoGPT-mup/tree/completep; arXiv:2505.01618",
        _powers(-1, 0, optimizer="adamw", eps=-1, weight_decay=0), caveat=TRANSFORMER, block=MLP),
    NamedRecipe(
        "megatron-depth-mup", "depth_mup as proposed for Megatron-LM, its initialisation compensated",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=MLP),
    NamedRecipe(
        "megatron-depth-mup-uncompensated", "the same on an initialisation of 1/sqrt(2 L)",
        "github.com/NVIDIA/Megatron-LM/pull/4381 and pull/4999", _powers(-1, 0, eps=-1, init=-HALF),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=MLP),
    NamedRecipe(
        "gpt-2", "GPT-2's initialisation 1/sqrt(2 L), learning rate as it was",
        "github.com/karpathy/nanoGPT, model.py", _powers(0, 0, optimizer="adamw", init=-HALF, weight_decay=0),
        caveat=f"{TRANSFORMER}; {PREFACTOR}", block=MLP),
    NamedRecipe(
        "gpt-2-smaller-lr", "the same, learning rate 1/L", "a variation, no source",
        _powers(0, -1, optimizer="adamw", init=-HALF, weight_decay=0), caveat=f"{TRANSFORMER}; {PREFACTOR}",
        block=MLP),
    NamedRecipe(
        "unit-scaling", "u-muP of unit-scaling, for Adam",
        "github.com/graphcore-research/unit-scaling, optim.py and core/functional.py; arXiv:2407.17465",
        _powers(-HALF, -HALF, eps=0, weight_decay=0, decay="independent", gradient=0),
        caveat=f"{TRANSFORMER}; its branch multiplier is applied behind the branch in the backward pass, so that "
        "gradients do not carry it; multipliers differ between layers by constant factors", block=MLP),
    NamedRecipe(
        "deepnorm", "DeepNorm as it is derived, for gradient descent",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        _powers(-HALF / 2, 0, optimizer="sgd", init=-HALF / 2), caveat=f"{AFTER}; a stream times L^(1/4) before "
        "its norm is a branch times L^(-1/4), and its constants, (2 L)^(1/4) and (8 L)^(-1/4), "
        "make what updates do to all 2 L branches add up to 1", block=POST_NORM, scaled="all"),
    NamedRecipe(
        "deepnorm-adam", "DeepNorm as it is trained, by Adam, eps negligible",
        "arXiv:2203.00555; github.com/microsoft/torchscale",
        _powers(-HALF / 2, 0, init=-HALF / 2, eps=None), caveat=f"{AFTER}; warm-up is of order one",
        block=POST_NORM, scaled="all"),
    NamedRecipe(
        "muon", "Muon, updates times max(1, fan-out / fan-in)^(1/2)", "github.com/KellerJordan/Muon, muon.py",
        _powers(0, 0, optimizer="muon"), caveat=TRANSFORMER, block=MLP, factor=GROWN),
    NamedRecipe(
        "muon-spectral", "Muon, updates of spectral norm (fan-out / fan-in)^(1/2)", "arXiv:2409.20325; "
        "arXiv:2310.17813", _powers(0, 0, optimizer="muon"), caveat=TRANSFORMER, block=MLP, factor=sp.sqrt(OUT / IN)),
    NamedRecipe(
        "muon-unit-rms", "Muon, updates whose entries have the size of Adam's, 0.2 max(fan-out, fan-in)^(1/2)",
        "github.com/MoonshotAI/Moonlight; arXiv:2502.16982", _powers(0, 0, optimizer="muon"), caveat=TRANSFORMER,
        block=MLP, factor=sp.sqrt(sp.Max(OUT, IN)) / 5),
    NamedRecipe(
        "fixup", "Fixup", "github.com/hongyi-zhang/Fixup, cifar/models; arXiv:1901.09321",
        outside="a block of m >= 2 matrices whose last one starts at zero and whose others start smaller by "
        "L^(-1/(2m - 2)): nothing is added to the stream at first, from which exponents are counted"),
    NamedRecipe(
        "rezero", "ReZero", "github.com/majumderb/rezero; arXiv:2003.04887",
        outside="a branch multiplier for every layer that starts at zero and is trained: multipliers are powers of L "
        "here, and at infinite width the gradient of that one vanishes at first"),
    NamedRecipe(
        "layerscale", "LayerScale", "github.com/facebookresearch/deit, cait_models.py; arXiv:2103.17239",
        outside="a trained multiplier for every coordinate that starts at 0.1, 1e-5 or 1e-6 by ranges of the depth: "
        "no power of L"),
)
