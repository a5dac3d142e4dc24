"""Numbers and kets in layer time that the equations are written in."""

from __future__ import annotations

import sympy as sp
from sympy.printing.printer import Printer

from ...programs.language import Real
from .passes import label_in_text, two_in_text

STEP = sp.Symbol("dp", positive=True)


class Increment(Real):
    """d|x>: by how much a ket moves within dp of layer time. args: the ket."""

    legend = (r"d | x \rangle", "by how much a ket moves within $dp$ of layer time; its Gaussians are independent of "
              "those of all other layer times")

    def _sympystr(self, printer: Printer) -> str:
        return f"d{printer.doprint(self.args[0])}"

    def _latex(self, printer: Printer) -> str:
        return rf"d {printer.doprint(self.args[0])}"


class OfPasses(Real):
    """A number of two passes at layer time p. args: the letter's symbol, t, s, p; of a batch, (t, i) and (s, j)."""

    def _sympystr(self, printer: Printer) -> str:
        letter, one, two, p = self.args
        return f"{letter}[{two_in_text(one, two, printer.doprint)}]({printer.doprint(p)})"

    def _latex(self, printer: Printer) -> str:
        letter, one, two, p = self.args
        below = two_in_text(one, two, printer.doprint)
        return rf"{printer.doprint(letter)}_{{{below}}}\left({printer.doprint(p)}\right)"


class Answer(OfPasses):
    """r_{t,s}(p) and e_{t,s}(p): what the stream x of step t answers to a push along the gradient of step s at layer
    time p, and the gradient to one along x."""

    legend = (r"r_{t,s}(p),\, e_{t,s}(p)", "what the stream $x$ of step $t$ answers there to a push along the gradient "
              "of step $s$ at layer time $p$, and the gradient to one along $x$")


class Density(OfPasses):
    """A_{t,s}(p), B_{t,s}(p): what a stream takes of the other one, per layer time."""

    legend = (r"A_{t,s}(p),\, B_{t,s}(p)", "what a stream takes of the other one, per layer time")


class Push(Real):
    """What a stream of step t answers at layer time p to a push along a stream of step s at q. args: both vectors
    without step and layer, t, s, p, q; without p for a vector outside of the layers."""

    legend = ("G(p,q)", "what the first stream answers at layer time $p$ to a push along the second one at $q$")

    def _sympystr(self, printer: Printer) -> str:
        one, two, t, s, *times = self.args
        names = "_".join(map(printer.doprint, (one, two)))
        return f"G_{names}[{two_in_text(t, s, printer.doprint)}]({','.join(map(printer.doprint, times))})"

    def _latex(self, printer: Printer) -> str:
        one, two, t, s, *times = self.args
        above = ",".join(map(printer.doprint, (one, two)))
        below = two_in_text(t, s, printer.doprint)
        return rf"G^{{{above}}}_{{{below}}}\left({','.join(map(printer.doprint, times))}\right)"


class LeadingBracket(Real):
    """<u|v> to leading order, of kets that a layer makes. args: the vectors."""

    def _sympystr(self, printer: Printer) -> str:
        return "<{}|{}>".format(*map(printer.doprint, self.args))

    def _latex(self, printer: Printer) -> str:
        return r"\langle {} | {} \rangle".format(*map(printer.doprint, self.args))


class LayerGaussian(Real):
    """A Gaussian that every layer draws anew, u_t: the hat-ket of a product with a matrix of its own. args: the
    letter's symbol, the pass."""

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.args[0]}[{label_in_text(self.args[1], printer.doprint)}]"

    def _latex(self, printer: Printer) -> str:
        return rf"{printer.doprint(self.args[0])}_{{{label_in_text(self.args[1], printer.doprint)}}}"


class FunctionValue(Real):
    """phi^(k)(u_t): a derivative of a function that the layer applies, of a Gaussian. args: the function's symbol, k,
    the Gaussian."""

    order = property(lambda self: int(self.args[1]))
    fresh = property(lambda self: self.args[2])

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.args[0]}{self._mark()}({printer.doprint(self.fresh)})"

    def _latex(self, printer: Printer) -> str:
        return rf"{printer.doprint(self.args[0])}{self._mark()}\left({printer.doprint(self.fresh)}\right)"

    def _mark(self) -> str:
        return "'" * self.order if self.order <= 3 else f"^{{({self.order})}}"


class GivenStreams(Real):
    """E[ | x, dx]: the mean over what a layer draws, given the streams that enter it. args: the body, the kets."""

    legend = (r"\mathbb{E}\left[\cdot \,\middle|\, x, \delta x\right]", "the mean over what a layer draws, "
              "given the streams that enter it")

    is_random = True

    def _sympystr(self, printer: Printer) -> str:
        body, *kets = map(printer.doprint, self.args)
        return f"E[{body} ; {', '.join(kets)}]"

    def _latex(self, printer: Printer) -> str:
        body, *kets = map(printer.doprint, self.args)
        return rf"\mathbb{{E}}\left[{body} \,\middle|\, {', '.join(kets)}\right]"


R, E, A, B = sp.symbols("r e A B")
