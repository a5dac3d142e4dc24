"""tpcalc: a calculus for wide and deep networks.

Write what a network computes and how it is trained; tpcalc derives what happens at infinite width
(kets) and infinite depth, evaluates both exactly, checks them against real networks, and says which
depth scalings (alpha, gamma) work.

Importing the package imports nothing that computes: a name brings its module, NumPy and SymPy, when it is first used.
Type checkers read ``__init__.pyi``.
"""

from importlib import import_module
from typing import Any

from .errors import Divergence as Divergence, MissingExtra as MissingExtra, NotCovered as NotCovered

HOMES = {
    "sympy": "oo",
    ".calculus": "kets",
    ".data": "Sequences Task tasks",
    ".horizon": "Stream long_horizon timescale transfer_rule",
    ".interpreters": "check_steps",
    ".limits": "depth_limit",
    ".lowering.recursions": "recursion",
    ".methods.train": "train",
    ".models": "HyperConnections MoE ResNet Skip Transformer",
    ".optimizers": "Adam AdamW Clipped Lion Muon NormalizedSGD SGD SOAP Shampoo SignSGD schedule",
    ".programs.blocks": "Branch",
    ".programs.program": "Program",
    ".results": "Run",
    ".scaling": "DepthScaling Parametrization Powers WidthScaling",
    ".studies": "convergence kernel_fn transfer",
    ".training.builders": "program",
    ".training.problem": "Problem",
    ".tune.audit": "audit",
    ".tune.visited_recipe": "recipe",
    ".tune.table": "named_recipes",
    ".verdicts": "classify",
    ".verdicts.phases": "phase_diagram",
    ".verdicts.wishes": "solve",
    ".width": "meta_principled ntk_exponent web",
}
PACKAGES = ("calculus", "data", "finite_width", "groups", "horizon", "interpreters", "kernels", "ledger", "limits",
            "lowering", "methods", "models", "optimizers", "programs", "propagators", "results", "scaling", "studies",
            "theory", "training", "tune", "verdicts", "width")
MODULE_OF = {name: home for home, names in HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(["Divergence", "MissingExtra", "NotCovered", "methods", *MODULE_OF])


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(MODULE_OF[name], __name__), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *PACKAGES})
