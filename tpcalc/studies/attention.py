"""Softmax attention of several positions at infinite width: kernels at initialization, and the limit of training it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sympy as sp

from .. import _checks
from .._shown import Short, brief
from .._types import Count, Value
from ..errors import NotCovered
from ..methods.attention import solve_sequences
from ..propagators.extrapolation import error_of_mean
from ..propagators.laws.attention import MATRICES, attention_sublayers
from ..propagators.blocks import GroupKernels
from ..propagators.laws.group_overlaps import through_layers
from ..propagators.laws.initial_overlaps import InitialLayers
from ..propagators.laws.pair_laws import kernels_of
from ..propagators.training import require_known
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data.losses import AnyLoss

HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class AttentionLayer:
    """A layer of softmax attention with RMSNorm before it, and after it, where ``mlp`` is given, one of perceptrons.

    positions: of a sequence, at least 2; head_dim: of a head, fixed while there are infinitely many; causal: whether a
    position sees those up to itself, or all; power: s in logits q . k / d^s; mlp: a ``tp.ResNet`` whose block acts on
    every position by itself, without trained embedding and readout. Matrices have entries N(0, 1 / fan-in), norms have
    no gains.

    Means over a head are taken by ``points`` scrambled Sobol points (a power of 2), ``scrambles`` times independently
    from ``seed`` on: how answers differ says how well they are known.

    Raises ``ValueError`` for numbers that are not of their kind and blocks that do not close on kernels.

    >>> import tpcalc as tp
    >>> tp.theory.AttentionLayer(positions=4, head_dim=2, causal=True).matrices
    ('q', 'k', 'v', 'o')
    """

    positions: int
    head_dim: int = 1
    causal: bool = False
    power: Value = HALF
    mlp: ResNet | None = None
    points: int = 2048
    scrambles: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        whole = {name: _checks.whole_number(name, getattr(self, name), least) for name, least in (
            ("positions", 2), ("head_dim", 1), ("points", 2), ("scrambles", 2), ("seed", 0))}
        power = _checks.exponent("power", self.power)
        if not power.is_number:
            raise ValueError(f"power: got {_checks.short(self.power)}; expected a number")
        for name, value in {**whole, "power": power, "causal": _checks.flag("causal", self.causal)}.items():
            object.__setattr__(self, name, value)
        if self.points & (self.points - 1):
            raise ValueError(f"points: got {self.points}; expected powers of 2")
        if self.mlp is not None:
            _checks.instance("mlp", self.mlp, ResNet)
            if self.mlp.train_embedding_readout:
                raise ValueError(f"mlp: got {self.mlp!r}; expected networks without trained embedding and readout")
            kernels_of(self.mlp)

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of what has a tangent kernel of its own; those of ``mlp`` are one."""
        return MATRICES if self.mlp is None else (*MATRICES, "mlp")

    def sublayers(self, scramble: int) -> tuple[GroupKernels, ...]:
        """Kernels with the points of one scramble, in the order in which a layer applies them."""
        return attention_sublayers(self.positions, self.head_dim, self.causal, float(self.power), self.points,
                                   self.seed + scramble, self.mlp)


class AttentionKernel(NamedTuple):
    """Kernels (G, S, G, S) between positions of G sequences: ``nngp``, the covariance of outputs, and tangent kernels
    ``ntk`` and ``by_matrix``; ``error``: the largest standard error of nngp and of ntk over scrambles.

    >>> import tpcalc as tp
    >>> found = tp.theory.attention_kernel(tp.theory.AttentionLayer(2, points=64), [[[1, 0], [0.5, 0.8]]], depth=1)
    >>> found.ntk.shape, bool(abs(found.ntk - sum(found.by_matrix.values())).max() < 1e-12)
    ((1, 2, 1, 2), True)
    """

    nngp: np.ndarray
    ntk: np.ndarray
    by_matrix: dict[str, np.ndarray]
    error: float

    def __repr__(self) -> str:
        return f"AttentionKernel({', '.join(f'{name}={brief(value)}' for name, value in self._asdict().items())})"


def attention_kernel(layer: AttentionLayer, inputs: Value, depth: Count = sp.oo, scale: DepthScaling = DepthScaling()
                     ) -> AttentionKernel:
    """The kernels of a residual network of such layers in the lazy limit: infinite width, features that do not move.

    inputs: (G, S, d), sequences of positions, read in by frozen Gaussian weights, so that overlaps at first are x x^T
    without a division by d; depth: a number of layers, or ``tp.oo``, where the kernels of a layer's sublayers add. The
    readout is the stream at a position, linear and frozen.

    Raises ``ValueError`` for arrays of other shapes and positions that are 0, ``Divergence`` for scalings at which
    there is no limit. Source: [tpcalc/action_principle].

    >>> import tpcalc as tp
    >>> found = tp.theory.attention_kernel(tp.theory.AttentionLayer(2, points=256), [[[1, 0], [0.5, 0.8]]])
    >>> found.nngp.reshape(2, 2).round(2).tolist()
    [[1.85, 1.34], [1.34, 1.74]]
    >>> {name: float(kernel[0, 0, 0, 0].round(1)) for name, kernel in found.by_matrix.items()}
    {'q': 0.0, 'k': 0.0, 'v': 1.2, 'o': 1.2}
    """
    _checks.instance("layer", layer, AttentionLayer)
    x = _sequences("inputs", inputs, layer, ("sequences", "positions", "numbers an input"))
    layers = _checks.size("depth", depth)
    _checks.instance("scale", scale, DepthScaling)
    scale.require_numbers()
    rates = InitialLayers(ResNet(), layers, scale).rates
    start = np.einsum("aid,bjd->abij", x, x)
    found = [through_layers(layer.sublayers(k), start, layers, rates) for k in range(layer.scrambles)]
    nngp = np.array([overlaps for overlaps, _ in found])
    by_matrix = {name: np.array([tangents[name] for _, tangents in found]) for name in layer.matrices}
    ntk = np.sum(list(by_matrix.values()), axis=0)
    error = max(float(np.max(error_of_mean(kernel))) for kernel in (nngp, ntk))
    return AttentionKernel(_by_position(nngp), _by_position(ntk),
                           {name: _by_position(kernel) for name, kernel in by_matrix.items()}, error)


@dataclass(frozen=True, repr=False)
class AttentionLimit(Short):
    """A trained network of infinite width, heads and depth.

    outputs: (steps, batch, positions, d_out), before every update; standard_error: of the same shape, over scrambles;
    discretization: twice how much outputs differ between two resolutions of layer time, and the round-off of sums.

    >>> import tpcalc as tp
    >>> layer = tp.theory.AttentionLayer(positions=2, points=16, scrambles=2)
    >>> found = tp.theory.attention_limit(layer, [[[[1, 0], [0.5, 0.8]]]], [[[[1], [-0.7]]]])
    >>> found.standard_error.shape, found.error
    ((1, 1, 2, 1), 0.0)
    """

    outputs: np.ndarray
    standard_error: np.ndarray
    discretization: float

    @property
    def error(self) -> float:
        """Three standard errors of the least known output, and the discretization."""
        return 3 * float(np.max(self.standard_error)) + self.discretization


def attention_limit(layer: AttentionLayer, inputs: Value, targets: Value, opt: SGD = SGD(),
                    scale: DepthScaling = DepthScaling(), loss: AnyLoss = "mse") -> AttentionLimit:
    """Train a residual network of such layers at infinite width, number of heads and depth, at (1/2, 1/2).

    inputs: (steps, batch, positions, d_in); targets: (steps, batch, positions, d_out). Outputs are f = V^T x at every
    position, without a final norm; embedding and readout are frozen. The loss is the sum over positions, and the mean
    over the sequences of a batch. The optimizer trains all matrices of all layers, in the units of ``tp.SGD``.

    Raises ``ValueError`` for arrays of other shapes, exponents other than (1/2, 1/2), and decay that leaves nothing of
    initial matrices or turns their sign, ``Divergence`` where the limit is not resolved or not one digit is known.
    Source: [tpcalc/action_principle].

    >>> import tpcalc as tp
    >>> layer = tp.theory.AttentionLayer(positions=2, points=64, scrambles=2)
    >>> found = tp.theory.attention_limit(layer, [[[[1, 0], [0.5, 0.8]]]], [[[[1], [-0.7]]]])
    >>> found.outputs.shape, float(found.outputs.max())
    ((1, 1, 2, 1), 0.0)
    """
    _checks.instance("layer", layer, AttentionLayer)
    x = _sequences("inputs", inputs, layer, ("steps", "batch", "positions", "d_in"))
    y = _sequences("targets", targets, layer, ("steps", "batch", "positions", "d_out"))
    if x.shape[:3] != y.shape[:3]:
        raise ValueError(f"targets: got shape {y.shape} for inputs of shape {x.shape}; expected "
                         f"{(*x.shape[:3], 'd_out')}")
    _checks.instance("opt", opt, SGD)
    _checks.instance("scale", scale, DepthScaling)
    scale.require_numbers()
    if (scale.alpha, scale.gamma) != (HALF, HALF):
        raise NotCovered(f"scale: got {scale!r}; expected alpha = gamma = 1/2, where what attention becomes at "
                         "infinite depth is checked against real networks")
    if np.any(opt.memory(len(x))[0] <= 0):
        raise NotCovered(f"opt: got {opt!r}; expected weight decay that leaves a positive part of the initial "
                         "matrices at every step")
    found = solve_sequences(x, y, loss, opt, scale, [layer.sublayers(k) for k in range(layer.scrambles)])
    limit = AttentionLimit(found.outputs.mean(axis=0), error_of_mean(found.outputs), float(found.error))
    require_known(limit.error, found.scale, "the limit of attention is lost in sampling", "more points may help")
    return limit


def _by_position(samples: np.ndarray) -> np.ndarray:
    """The mean of (scrambles, G, G, S, S), as (G, S, G, S)."""
    return np.asarray(samples.mean(axis=0).transpose(0, 2, 1, 3))


def _sequences(name: str, value: Value, layer: AttentionLayer, axes: tuple[str, ...]) -> np.ndarray:
    found = _checks.finite_array(name, value)
    at = axes.index("positions")
    if found.ndim != len(axes) or 0 in found.shape or found.shape[at] != layer.positions:
        raise ValueError(f"{name}: got an array of shape {found.shape}; expected ({', '.join(axes)}) with "
                         f"{layer.positions} positions")
    if name == "inputs" and not np.all(np.any(found != 0, axis=-1)):
        raise ValueError("inputs: got a position that is 0; expected inputs that RMSNorm can divide by their norm")
    return found
