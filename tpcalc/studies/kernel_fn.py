"""The lazy limit: kernels of a network that is infinitely wide and does not learn features, and what they predict."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from .. import _checks
from .._types import Count, Number, Value
from ..propagators.laws.initial_overlaps import InitialLayers, Overlaps, readout_functions, require_gaussian
from ..propagators.laws.visited_overlaps import VisitedLayers
from ..scaling import DepthScaling
from ..models import ResNet
from ..models.activations import activation, is_linear

ARRAYS = 24               # of the size of the result that are held at once
SINGULAR = 1e-13          # of the largest eigenvalue, below which one is zero


Kernels = namedtuple("Kernels", ("nngp", "ntk"))  # (N1, N2) each, as they are asked for
TangentFirst = namedtuple("TangentFirst", ("ntk", "nngp"))
OnlyNNGP = namedtuple("OnlyNNGP", ("nngp",))
OnlyNTK = namedtuple("OnlyNTK", ("ntk",))
RESULTS = {kind._fields: kind for kind in (Kernels, TangentFirst, OnlyNNGP, OnlyNTK)}
WORDS = "'nngp', 'ntk', or a tuple of these"


@dataclass(frozen=True)
class KernelFunction:
    """The kernels of a network at infinite width and initialization, as a function of two arrays of inputs.

    Called as ``kernel_fn(x1, x2=None, get=("nngp", "ntk"))``, with x1 (N1, d) and x2 (N2, d), by default x1, it returns
    an array (N1, N2) for a word and a named tuple of arrays for a tuple of words, in their order. "nngp" is the
    covariance of the network's outputs over initializations, "ntk" the overlap of their gradients in the weights, times
    the size of an update. The Gram matrix of inputs is x1 x2^T, without a division by d, as in ``tp.Task``.

    An input with itself is computed as such, without the rounding of a correlation that is nearly 1. Steps in layer
    time are chosen for errors of 1e-12; at finite depth kernels are exact but for rounding and quadrature.

    Raises ``ValueError`` for arrays that are not two-dimensional, not finite, or of different d, ``Divergence`` where
    variances leave what floats hold, ``MemoryError`` for kernels that do not fit.

    >>> import numpy as np, tpcalc as tp
    >>> kernel_fn = tp.kernel_fn(tp.ResNet("relu", "pre_nonlin"))
    >>> kernel_fn(np.eye(2), get="ntk").round(4).tolist()
    [[0.8244, 0.2628], [0.2628, 0.8244]]
    """

    layers: InitialLayers | VisitedLayers
    train_embedding_readout: bool
    readout: sp.Expr | str

    def __call__(self, x1: Value, x2: Value = None, get: str | tuple[str, ...] = ("nngp", "ntk")) -> Value:
        words = (get,) if isinstance(get, str) else get
        if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words) or words not in RESULTS:
            raise ValueError(f"get: got {_checks.short(get)}; expected {WORDS}")
        x1 = _inputs("x1", x1)
        x2 = x1 if x2 is None else _inputs("x2", x2)
        if x1.shape[1] != x2.shape[1]:
            raise ValueError(f"x2: got {x2.shape[1]} numbers an input, and x1 has {x1.shape[1]}; expected as many")
        _checks.memory(8.0 * ARRAYS * len(x1) * len(x2), f"kernels of {len(x1)} and {len(x2)} inputs", "parts of them")
        found = self._kernels(x1, x2)
        return getattr(found, get) if isinstance(get, str) else RESULTS[words](**{w: getattr(found, w) for w in words})

    def predict(self, x1: Value, y1: Value, x2: Value, time: Number = sp.oo, get: str = "ntk", ridge: Number = 0.0
                ) -> np.ndarray:
        """What the network predicts at x2 (N2, d) after learning y1 (N1,) or (N1, k) at x1 (N1, d): (N2,) or (N2, k).

        get="ntk": gradient flow of the batch's mean of (f - y)^2 / 2, which moves all outputs from 0 by
        df/dt = -K (f - y) / N1, until training time ``time``; infinite time is kernel regression. get="nngp": the mean
        of the posterior of a network of which the readout alone is trained, at infinite time. ridge: what the kernel's
        diagonal is raised by, at infinite time.

        Repeated inputs have the mean of their targets: eigenvalues below 1e-13 of the largest count as 0.

        Raises ``ValueError`` for targets that are not as many as inputs, a negative time or ridge, and a finite time
        with get="nngp" or with a ridge; else as the call.

        >>> import numpy as np, tpcalc as tp
        >>> kernel_fn = tp.kernel_fn(tp.ResNet("relu", "pre_nonlin"))
        >>> x, y = np.array([[1, 0], [0.5, 0.8]]), np.array([1, -0.7])
        >>> kernel_fn.predict(x, y, x).round(4).tolist()
        [1.0, -0.7]
        >>> kernel_fn.predict(x, y, x, time=1.0).round(4).tolist()
        [0.2083, -0.043]
        """
        get, targets = _checks.choice("get", get, ("nngp", "ntk")), _checks.finite_array("y1", y1)
        x1, x2 = _inputs("x1", x1), _inputs("x2", x2)
        if targets.ndim not in (1, 2) or len(targets) != len(x1):
            raise ValueError(f"y1: got an array of shape {targets.shape} for {len(x1)} inputs; expected "
                             f"({len(x1)},) and ({len(x1)}, k)")
        ridge = _checks.nonnegative_number("ridge", ridge)
        forever = time is sp.oo or isinstance(time, float) and time == np.inf
        lasts = np.inf if forever else _checks.nonnegative_number("time", time)
        if not forever and (get == "nngp" or ridge > 0):
            raise ValueError(f"time: got {_checks.short(time)} with get={get!r}, ridge={ridge}; a finite time is "
                             "that of gradient flow, of get='ntk' without a ridge; expected tp.oo")
        values, vectors = np.linalg.eigh(self(x1, get=get))
        values = np.maximum(values, 0.0)
        there = values > SINGULAR * np.max(values, initial=0.0)
        weights = np.zeros(len(values))
        weights[there] = (1.0 if forever else -np.expm1(-lasts * values[there] / len(x1))) / (values[there] + ridge)
        return self(x2, x1, get=get) @ (vectors @ (weights * (vectors.T @ targets).T).T)

    def _kernels(self, x1: np.ndarray, x2: np.ndarray) -> Kernels:
        """Every two different inputs are one pair."""
        inputs, location = np.unique(np.concatenate([x1, x2]) + 0.0, axis=0, return_inverse=True)  # -0 is 0
        rows, columns = location.ravel()[:len(x1)], location.ravel()[len(x1):]
        low, high = np.minimum(rows[:, None], columns), np.maximum(rows[:, None], columns)
        pairs, which = np.unique((low * len(inputs) + high)[low != high], return_inverse=True)
        first, second = np.divmod(pairs, len(inputs))
        own, pair = np.einsum("nd,nd->n", inputs, inputs), np.einsum("nd,nd->n", inputs[first], inputs[second])
        pair = np.clip(pair, *(sign * np.sqrt(own[first]) * np.sqrt(own[second]) for sign in (-1, 1)))
        opposite = np.all(inputs[first] == -inputs[second], axis=1)
        pair[opposite] = -own[first[opposite]]
        trained = float(self.train_embedding_readout)
        end = self._read(self.layers.carry(Overlaps(own, trained * own, pair, trained * pair), first, second),
                         first, second)
        kernels = []
        for own, pair in ((end.own, end.pair), (end.own_tangent, end.pair_tangent)):
            kernel = own[low]
            kernel[low != high] = pair[which.ravel()]
            kernels.append(kernel)
        return Kernels(*kernels)

    def _read(self, end: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        """Kernels of outputs, from those of streams."""
        values, tangents = (end.own, end.pair), (end.own_tangent, end.pair_tangent)
        if not is_linear(self.readout):
            functions = readout_functions(self.readout)
            found = functions.own(end.own), functions.pair(end.pair, end.own[first], end.own[second])
            values = found[0][0], found[1][0]
            tangents = found[0][1] * tangents[0], found[1][1] * tangents[1]
        own, pair = (tangent + self.train_embedding_readout * value for tangent, value in zip(tangents, values))
        return Overlaps(values[0], own, values[1], pair)


def kernel_fn(net: ResNet, depth: Count = sp.oo, scale: DepthScaling = DepthScaling(),
              train_embedding_readout: bool | None = None,
              readout: sp.Expr | str | None = None) -> KernelFunction:
    """The kernels of ``net`` in the lazy limit: infinite width, and features that do not move.

    depth: a number of layers, or ``tp.oo``; scale: of branches and updates, (1/2, 1/2) by default;
    train_embedding_readout: whether the gradients in embedding and readout count, by default what the network says;
    readout: what the readout is applied to, the stream itself or an activation of it, by default what the network says.

    Kernels come from the statements of the block: its covariance kappa, its slope kappa_12 and its tangent kernels, at
    initialization, where streams are Gaussian. So blocks that act on the stream first, such as "pre_nonlin", are
    answered too: at every depth where what they add is Gaussian, else at infinite depth. Matrices have entries N(0,
    1/n), relu is max(h, 0), and nothing is rescaled.

    Raises ``ValueError`` for blocks whose kernels are not functions of overlaps, with the reason, ``Divergence`` for
    scalings at which there is no limit. Source: Depthwise Hyperparameter Transfer, Proposition 2 and appendix G.1
    [depthwise_transfer/proposition_2].

    >>> import tpcalc as tp
    >>> tp.kernel_fn(tp.ResNet("tanh", "pre_nonlin"))([[1, 0], [0, 1]], get="ntk").round(6).tolist()
    [[0.529649, 0.0], [0.0, 0.529649]]
    """
    _checks.instance("net", net, ResNet)
    net.require_first_outputs("kernels are known of networks")
    layers = _checks.size("depth", depth)
    _checks.instance("scale", scale, DepthScaling)
    scale.require_numbers()
    ends = net.train_embedding_readout if train_embedding_readout is None else _checks.flag("train_embedding_readout",
                                                                                            train_embedding_readout)
    readout = net.readout if readout is None else readout
    activation(readout, "readout")
    net = replace(net, readout="linear")  # of blocks and streams, which know nothing of it
    if not is_linear(readout):
        require_gaussian(net.visited_once, layers,
                         f"a readout of {_checks.short(readout)}")
    return KernelFunction((InitialLayers if net.visits == 1 else VisitedLayers)(net, layers, scale), ends, readout)


def _inputs(name: str, value: Value) -> np.ndarray:
    found = _checks.finite_array(name, value)
    if found.ndim != 2 or 0 in found.shape:
        raise ValueError(f"{name}: got an array of shape {found.shape}; expected (inputs, numbers an input)")
    return found
