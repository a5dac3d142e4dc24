"""Where kernels are entrywise functions of pairs: a block's kernels, and both directions' densities, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from ...action.block_kernels import C, P, Q, R, RP, RQ, derive_block_kernels
from ...action.densities import KAPPA, Derivative, Terms, derive_laws
from ...errors import NotCovered
from ...gaussian import Expectation
from ...gaussian.overlap_functions import tabulated
from ...models import ResNet
from ..blocks import BlockKernels, BlockRates, Kernel, Linear, Pairs


class DerivedBlock:
    """The protocol ``BlockKernels`` for any block that closes on kernels.

    Raises ``ValueError`` with the reason for blocks and activations that do not. Source: the action
    principle [tpcalc/action_principle], of which the linear block's densities are Tensor Programs VI's Proposition C.4.
    """

    size = 1

    def __init__(self, net: ResNet) -> None:
        self.net, self.kernels = net, derive_block_kernels(net)
        self.is_linear = net.is_plain
        laws = derive_laws()
        self.has_diagonal = any(self.kernels.derivative(*term.derivative) != 0 for term in laws.past)
        self._functions: dict[tuple[Derivative, ...], Callable[..., tuple[Kernel, ...]]] = {}
        for terms in (laws.A + laws.N0, laws.N0, laws.B + laws.N1 + (laws.past if self.has_diagonal else ())):
            self._function(tuple(dict.fromkeys(term.derivative for term in terms)))

    def __reduce__(self) -> tuple[Callable[[ResNet], BlockKernels], tuple[ResNet]]:
        """Pickled as the network: compiled functions are compiled again."""
        return kernels_of, (self.net,)

    def __repr__(self) -> str:
        return f"the block of {self.net!r}"

    def derivatives(self, pairs: Pairs, asked: tuple[Derivative, ...]) -> tuple[Kernel, ...]:
        left = np.nan if pairs.left is None else pairs.left[..., :, None]
        return tuple(self._function(asked)(pairs.c, left, pairs.right[..., None, :] if np.ndim(pairs.right) else np.nan,
                                           pairs.decay, pairs.left_decay, pairs.right_decay))

    def _function(self, asked: tuple[Derivative, ...]) -> Callable[..., tuple[Kernel, ...]]:
        if asked not in self._functions:
            self._functions[asked] = compiled_pair_function(tuple(self.kernels.derivative(*one) for one in asked))
        return self._functions[asked]


@lru_cache(maxsize=16)
def kernels_of(net: ResNet) -> BlockKernels:
    """The kernels of the network's blocks; raises ``ValueError`` with the reason where there are none."""
    return DerivedBlock(net)


def linear_block() -> BlockKernels:
    """The kernels of x + eps W x: kappa = rho_a rho_b C0, theta = C0."""
    return kernels_of(ResNet())


def compiled_pair_function(expressions: tuple[sp.Expr, ...]) -> Callable[..., tuple[Kernel, ...]]:
    functions: dict[str, Callable[..., np.ndarray]] = {}
    names: dict[object, sp.Expr] = {}

    def plain(e: sp.Expr) -> sp.Expr:
        """With a name for every function that quadrature or a formula evaluates."""
        if not e.has(Expectation):
            return e
        if not isinstance(e, Expectation):
            return e.func(*map(plain, e.args))
        if e.functions not in names:
            name = f"mean_{len(names)}"
            names[e.functions], functions[name] = sp.Function(name), tabulated(e.functions)
        return names[e.functions](*map(plain, e.entries))

    return sp.lambdify((C, P, Q, R, RP, RQ), [plain(e) for e in expressions], modules=[functions, "scipy", "numpy"],
                       cse=True)


@dataclass(frozen=True)
class Formulas:
    """Sums of terms as functions of the constant ``noise``, which kernels of initial matrices carry, of r and of the
    derivatives ``asked`` for; ``of``: (noise, r, *derivatives) -> the sums."""

    asked: tuple[Derivative, ...]
    of: Callable[..., tuple[Kernel, ...]]


def formulas(*sums: Terms) -> Formulas:
    """The sums compiled, without e, C^1 and w."""
    noise, r = sp.symbols("noise r")
    asked = tuple(dict.fromkeys(term.derivative for terms in sums for term in terms))
    names = dict(zip(asked, sp.symbols(f"k:{len(asked)}")))
    values = [sp.Add(*(term.number * (noise if term.derivative.kernel == KAPPA else 1) * (r if term.tangent else 1)
                       * names[term.derivative] for term in terms)) for terms in sums]
    return Formulas(asked, sp.lambdify([noise, r, *names.values()], values, modules="numpy"))


def terms_with_factors(terms: Terms, cotangent: str = "", weighed: bool = False) -> Terms:
    """The terms with this factor e or C^1, and with w or without."""
    return tuple(t for t in terms if (t.cotangent, t.weighed) == (cotangent, weighed))


@dataclass(frozen=True)
class CompiledLaws:
    """What a step asks of a block: ``ahead`` sums A without w, with w, and N0; ``back`` the coefficients of e, of C^1
    without w and with w in B, that in N1, and, where there is a diagonal, the three of its past.

    slopes: of a block that is linear A by r, A by C0 without its w, and N0 by C0: a kernel that is linear in C0 is its
    derivative times C0.
    """

    ahead: Formulas
    back: Formulas
    back_with_diagonal: Formulas
    own_ahead: Formulas
    own_back: Formulas
    own_back_with_diagonal: Formulas
    slopes: Formulas


@lru_cache(maxsize=1)
def compiled_laws() -> CompiledLaws:
    """Compiled from the densities that the action derives."""
    laws = derive_laws()

    def three(terms: Terms) -> tuple[Terms, ...]:
        return terms_with_factors(terms, "e"), terms_with_factors(terms, "C1"), terms_with_factors(terms, "C1", True)

    back = (*three(laws.B), terms_with_factors(laws.N1, "C1"))
    moved = tuple(term.raised() for term in terms_with_factors(laws.A, weighed=True))
    return CompiledLaws(
        formulas(terms_with_factors(laws.A), terms_with_factors(laws.A, weighed=True), laws.N0), formulas(*back),
        formulas(*back, *three(laws.past)), formulas(laws.N0), formulas(laws.N1), formulas(laws.N1, laws.present),
        formulas(terms_with_factors(laws.A), moved, tuple(term.raised() for term in laws.N0)))


def weighted(x: np.ndarray, w: np.ndarray, forward: bool) -> np.ndarray:
    """x (..., b, m) times what updates are made of: w (m,), or (..., m, m), transposed in the forward direction."""
    return x * w if w.ndim == 1 else x @ (np.swapaxes(w, -1, -2) if forward else w)


def variances(own: np.ndarray) -> np.ndarray:
    """(..., b) of the rows of a step, from their covariances (..., b, b), or as they are from a column (..., b, 1)."""
    return np.diagonal(own, axis1=-2, axis2=-1) if own.shape[-1] == own.shape[-2] else own[..., 0]


@dataclass(frozen=True)
class ForwardLaw:
    """A and N0 of the rows of a step. Source: [tpcalc/block_densities].

    noise: the constant of the initial matrices, with kappa; drift: w times the constant of the updates, with theta:
    (m,) weights of earlier rows, or (nodes, m, m) matrices w[a, b] where an update mixes rows, as a sum of outer
    products of gradients a and inputs b; right: (..., m) variances of the earlier rows; decay, own_decay: rho_a rho_b
    with them, and among the step's own rows. Raises ``ValueError`` for updates that mix rows and blocks that are not
    linear.
    """

    block: BlockKernels
    noise: float
    drift: np.ndarray
    right: np.ndarray
    decay: Kernel
    own_decay: float
    resolution: float = 0.0

    def __post_init__(self) -> None:
        if self.drift.ndim > 1 and not self.block.is_linear:
            raise NotCovered(f"drift: got matrices of shape {self.drift.shape} with {self.block!r}; updates that mix "
                             "rows are allowed of linear blocks, whose theta is the overlap of inputs")

    def pairs(self, c: np.ndarray, own: np.ndarray | None) -> Pairs:
        own_decay = self.own_decay or np.nan  # after a decay to 0 nothing is known of rho_b alone
        return Pairs(c, None if own is None else variances(own), self.right, self.decay, self.own_decay,
                     np.square(self.decay) / own_decay)

    def own_pairs(self, own: np.ndarray) -> Pairs:
        left = right = variances(own)
        if own.shape[-1] != own.shape[-2]:  # of passengers each is a pair with itself alone
            own, left, right = own[..., None], left[..., None], right[..., None]
        return Pairs(own, left, right, *3 * (self.own_decay,))

    def sums(self, of: Formulas, pairs: Pairs, r: Kernel) -> tuple[Kernel, ...]:
        return of.of(self.noise, r, *self.block.derivatives(pairs, of.asked))

    def own_noise(self, own: np.ndarray | None) -> np.ndarray | None:
        """N0 of the step with itself, of the shape of ``own``."""
        if own is None:
            return None
        pairs = self.own_pairs(own)
        found, = self.sums(compiled_laws().own_ahead, pairs, 0.0)
        return np.broadcast_to(found, pairs.c.shape).reshape(own.shape)

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        plain, moved, noise = map(np.asarray, self.sums(compiled_laws().ahead, self.pairs(c, own), r))
        return BlockRates(plain + weighted(moved, self.drift, True), None, noise, self.own_noise(own))

    @cached_property
    def linear(self) -> Linear | None:
        if not self.block.is_linear:
            return None
        nothing, slopes = np.zeros(()), compiled_laws().slopes
        on_r, moved, _ = self.sums(slopes, self.pairs(nothing, None), 1.0)
        _, _, own = self.sums(slopes, Pairs(nothing, None, nothing, *3 * (self.own_decay,)), 1.0)
        return on_r, moved * (self.drift if self.drift.ndim == 1 else np.swapaxes(self.drift, -1, -2)), float(own)


class BackwardLaw:
    """B, its diagonal, and N1 of the rows of a step. Linear in e and C1. Source: [tpcalc/block_densities].

    forward: the law of the same step; r, c0, own: what its sweep has found.
    """

    resolution = 0.0

    def __init__(self, forward: ForwardLaw, r: np.ndarray, c0: np.ndarray, own: np.ndarray) -> None:
        laws, self.forward, self.has_diagonal = compiled_laws(), forward, forward.block.has_diagonal
        pairs, own_pairs, drift = forward.pairs(c0, own), forward.own_pairs(own), forward.drift
        found = forward.sums(laws.back_with_diagonal if self.has_diagonal else laws.back, pairs, r)
        self.on_e, self.on_c, self.mixed, self.on_noise = found[:4]
        if drift.ndim == 1:
            self.on_c = self.on_c + self.mixed * drift
        if self.has_diagonal:
            self.past_e, self.past_c = found[4], found[5] + found[6] * drift
            self.on_own, present = forward.sums(laws.own_back_with_diagonal, own_pairs, 0.0)
            self.present = np.diagonal(np.broadcast_to(present, own.shape), axis1=-2, axis2=-1)
        else:
            self.on_own, = forward.sums(laws.own_back, own_pairs, 0.0)

    @property
    def linear(self) -> Linear | None:
        """The mirror image of the forward law's."""
        ahead = self.forward.linear
        return ahead if ahead is None or ahead[1].ndim == 1 else (ahead[0], np.swapaxes(ahead[1], -1, -2), ahead[2])

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        m = c.shape[-1]
        e, diagonal = r[..., :m], None
        density = self.on_e * e + self.on_c * c
        if self.forward.drift.ndim > 1:
            density += weighted(self.mixed * c, self.forward.drift, False)
        if self.has_diagonal:
            diagonal = (self.present * np.diagonal(r[..., m:], axis1=-2, axis2=-1)
                        + np.sum(self.past_e * e + self.past_c * c, axis=-1))
        return BlockRates(density, diagonal, self.on_noise * c, None if own is None else self.on_own * own)


@dataclass(frozen=True)
class MixingForwardLaw(ForwardLaw):
    """A and N0 as ``ForwardLaw``, of blocks phi(W x) where an update mixes rows, by a matrix w_ab over the rows of a
    step, one for every layer and step, as Muon's; drift: (nodes, m, m).

    The update of W is a sum over rows a, b of w_ab dh_a x_b^T / n with dh = phi'(W x) delta. The input is the stream,
    so that what the update adds to an argument u of phi is linear in C0: it stands beside the response r, and what phi
    does to it is what phi does to r. Back through W^T it mixes the overlaps of dh, phi' phi' C1. Source:
    [tpcalc/muon_on_gram_matrices].
    """

    def __post_init__(self) -> None:
        """Updates that mix rows are what it is for."""

    linear: Linear | None = None  # type: ignore[assignment]  # phi is not

    def moved(self, r: np.ndarray, c: np.ndarray) -> np.ndarray:
        """What moves the arguments of phi, in units in which kernels carry the decay: noise r - C0 w^T / decay."""
        return self.noise * r - weighted(c, self.drift, True) / self.decay

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        ahead = compiled_laws().ahead
        derivatives = self.block.derivatives(self.pairs(c, own), ahead.asked)
        density = ahead.of(1.0, self.moved(r, c), *derivatives)[0]
        noise = np.asarray(ahead.of(self.noise, 0.0, *derivatives)[2])
        return BlockRates(np.asarray(density), None, noise, self.own_noise(own))


class MixingBackwardLaw(BackwardLaw):
    """That of phi(W x) with mixed rows."""

    def __init__(self, forward: MixingForwardLaw, r: np.ndarray, c0: np.ndarray, own: np.ndarray) -> None:
        laws, self.forward, self.has_diagonal = compiled_laws(), forward, True
        back: Formulas = laws.back_with_diagonal
        derivatives = forward.block.derivatives(forward.pairs(c0, own), back.asked)
        of_noise = back.of(forward.noise, r, *derivatives)
        of_moved = back.of(1.0, forward.moved(r, c0), *derivatives)
        self.on_e, self.on_noise, self.past_e = of_noise[0], of_noise[3], of_noise[4]
        self.on_c, self.past_c = of_moved[1], of_moved[5]
        self.mixed = -of_moved[0] / forward.decay  # E phi' phi'
        self.on_own, present = forward.sums(laws.own_back_with_diagonal, forward.own_pairs(own), 0.0)
        self.present = np.diagonal(np.broadcast_to(present, own.shape), axis1=-2, axis2=-1)
