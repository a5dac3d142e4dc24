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
    ".classification": "audit classify named_recipes phase_diagram",
    ".interpreters": "check_steps",
    ".limits": "depth_limit",
    ".lowering.recursions": "recursion",
    ".methods.train": "train",
    ".parametrizations": "DepthScaling Parametrization Powers WidthScaling",
    ".programs": ("Adam AdamW Clipped HyperConnections Lion Muon NormalizedSGD ResNet SGD Sequences SignSGD Skip Task "
                  "Transformer schedule tasks"),
    ".programs.blocks": "Branch",
    ".programs.builders": "program",
    ".programs.problem": "Problem",
    ".programs.program": "Program",
    ".recipes": "recipe",
    ".results": "Run",
    ".studies": "convergence kernel_fn transfer",
    ".width": "meta_principled ntk_exponent web",
    ".wishes": "solve",
}
PACKAGES = ("calculus", "classification", "groups", "interpreters", "kernels", "ledger", "limits",
            "lowering", "methods", "parametrizations", "programs", "propagators", "recipes", "results", "studies",
            "theory", "width", "wishes")
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
