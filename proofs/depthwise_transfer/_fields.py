"""Fields and kernels of the DMFT as expressions: steps as indices, a layer or a layer time as the argument."""

from __future__ import annotations

import copyreg
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.core.function import FunctionClass


NAMES = {"phi": r"\phi", "dphi": r"\dot\phi", "Phi": r"\Phi", "Theta": r"\Theta", "chi": r"\chi", "xi": r"\xi",
         "Ch": "{C_h}", "Cg": "{C_g}", "Kx": "{K_x}", "An": r"\mathcal{A}", "Bn": r"\mathcal{B}", "jh": "{j_h}",
         "jg": "{j_g}", "chih": r"\hat\chi", "xih": r"\hat\xi", "Phih": r"\hat\Phi", "Gh": r"\hat{G}",
         "hh": r"\hat{h}", "gh": r"\hat{g}", "hk": r"\tilde{h}", "gk": r"\tilde{g}", "chik": r"\tilde\chi",
         "xik": r"\tilde\xi", "dphik": r"\dot\phi", "Phik": r"\Phi", "kPhi": r"{\kappa^{\Phi}}",
         "kG": r"{\kappa^{G}}", "kPG": r"{\kappa^{\Phi G}}", "DPhi": r"{D^{\Phi}}", "DG": "{D^{G}}",
         "DPG": r"{D^{\Phi G}}", "DGP": r"{D^{G \Phi}}", "SPhi": r"{\Sigma^{\Phi}}", "SG": r"{\Sigma^{G}}",
         "SPG": r"{\Sigma^{\Phi G}}", "dW": r"\dot{W}", "du": r"\dot{u}", "dr": r"\dot{r}", "df": r"\dot{f}",
         "dh": r"\dot{h}", "dw": r"\dot{w}", "dW0": r"\dot{W}^0", "Ar": r"\bar{A}",
         "Br": r"\bar{B}", "W0": "{W^0}", "loss": r"\mathcal{L}"}


class Average(sp.Expr):
    """The mean over single sites."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        return rf"\left\langle {printer.doprint(self.args[0])} \right\rangle"


class Slope(sp.Expr):
    """The derivative of a field in fields."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        of, *by = map(printer.doprint, self.args)
        power = f"^{len(by)}" if len(by) > 1 else ""
        below = " ".join(rf"\delta {one}" for one in by)
        return rf"\frac{{\delta{power} {of}}}{{{below}}}"


class FieldClass(FunctionClass):
    """The class of fields: they are made by their names, and are sent to other processes as these."""


class Field(sp.Function, metaclass=FieldClass):
    """A field or a kernel: times as indices, layer time as the argument."""

    def _latex(self, printer: Any, exp: Any = None) -> str:
        *steps, location = self.args
        name = NAMES.get(self.func.__name__, self.func.__name__)
        below = f"_{{{' '.join(map(printer.doprint, steps))}}}" if steps else ""
        text = f"{name}{below}({printer.doprint(location)})"
        return text if exp is None else f"{text}^{{{exp}}}"


class SymmetricField(Field):
    """A field that does not tell its arguments apart."""

    @classmethod
    def eval(cls, *args: sp.Expr) -> sp.Expr | None:
        ordered = sorted(args, key=sp.default_sort_key)
        return None if list(args) == ordered else cls(*ordered)


@lru_cache(maxsize=None)
def field_of(name: str, kind: type[Field]) -> type[Field]:
    """The class of one field."""
    return FieldClass(name, (kind,), {})


def fields(names: str, kind: type[Field] = Field) -> Any:
    """Classes of fields by their names."""
    return [field_of(name, kind) for name in names.split()]


def _sent(kind: type[Field]) -> Any:
    if kind in (Field, SymmetricField):
        return kind.__name__
    return field_of, (kind.__name__, kind.__base__)


copyreg.pickle(FieldClass, _sent)  # type: ignore[arg-type]


def mean_of(value: sp.Expr) -> sp.Expr:
    return Average(value)
