"""Where weight decay and gradients balance: streams that turn at one rate, and ridge regression that knows itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

from tpcalc.horizon.linear import balanced, stationary_state
from tpcalc.horizon.stream import Stream
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate
from tpcalc.ledger.proof import Identity

from ._steps import PutIn, Simplified, Solved

STREAM, BACK = sp.Matrix(sp.symbols("x_1 x_2")), sp.Matrix(sp.symbols(r"\delta_1 \delta_2"))
SIZE, OUTPUT, TURN, DECAY, RIDGE, VARIANCE, TEACHER = sp.symbols(
    r"c f \phi \lambda r s_i w^*_i", positive=True)
SQUARE, BACK_SQUARE, CROSS = sp.symbols(r"|x|^2 |\delta|^2 g")
CHANGES = sp.symbols(r"\dot{f} \dot{g} \partial_\tau{|x|^2} \partial_\tau\arg{x} \partial_\tau\arg{\delta}")
PRODUCT, UPDATES, WEIGHT = sp.symbols(r"c{f} \int|A|^2 w_i", positive=True)
COMPONENTS = {SQUARE: STREAM.dot(STREAM), BACK_SQUARE: BACK.dot(BACK), OUTPUT: STREAM.dot(BACK),
              CROSS: STREAM[0] * BACK[1] - STREAM[1] * BACK[0]}
DEPTHS = (4, 8, 16, 32)


@dataclass(frozen=True)
class InComponents(Identity):
    """A step from components of two vectors in a plane to their products."""

    def check(self) -> bool:
        return bool(sp.cancel(self.before - self.after.xreplace(COMPONENTS)) == 0)


def slope(of: sp.Expr) -> sp.Expr:
    """How fast it moves along the layers, where x' = A x and delta' = -A^T delta, A = c delta x^T."""
    layer = SIZE * BACK * STREAM.T
    forward, backward = layer * STREAM, -layer.T * BACK
    return sum((sp.diff(of, one) * motion for ones, motions in ((STREAM, forward), (BACK, backward))
                for one, motion in zip(ones, motions)), sp.Integer(0))


def statement() -> Equations:
    growth, turn = sp.exp(TURN * sp.tan(TURN)), SIZE * CROSS
    values = (sp.Integer(0), sp.Integer(0), 2 * SIZE * OUTPUT * SQUARE, turn, turn)
    return Equations((
        *map(Equation, CHANGES, values),
        Equation(PRODUCT, TURN * sp.tan(TURN)), Equation(OUTPUT, growth * sp.sin(TURN)),
        Equation(SIZE, TURN / (growth * sp.cos(TURN))), Equation(UPDATES, TURN**2 / sp.cos(TURN) ** 2),
        Equation(RIDGE, DECAY * TURN / (growth**2 * sp.sin(TURN) * sp.cos(TURN))),
        Equation(WEIGHT, VARIANCE * TEACHER / (VARIANCE + RIDGE))))


def derive() -> Proof:
    *changes, product, output, size, updates, ridge, weight = (equation.value for equation in statement().equations)
    x, d = STREAM, BACK
    moving = (COMPONENTS[OUTPUT], COMPONENTS[CROSS], COMPONENTS[SQUARE], sp.atan(x[1] / x[0]), sp.atan(d[1] / d[0]))
    steps: list[Identity] = [InComponents(k, left, sp.Add(0, slope(of), evaluate=False), value, "layers in a row",
                                          "decay times A is what its gradient is, delta x^T in proportion")
                             for k, (left, of, value) in enumerate(zip(CHANGES, moving, changes), 1)]
    # f = p sin(phi), g = p cos(phi), p = |x| |delta|: the stream starts along the input, delta ends along the readout
    lengths = sp.Symbol("p", positive=True)
    turned = SIZE * lengths * sp.cos(TURN) - TURN
    (rate,) = sp.solve(turned, SIZE)
    known = (SIZE, size), (OUTPUT, output)
    steps += [Simplified(6, PRODUCT, rate * lengths * sp.sin(TURN), product, "half a turn",
                         "both turn by phi = c g in all, from a right angle between input and readout: f = g tan(phi)"),
              PutIn(7, OUTPUT, sp.sin(TURN) * sp.exp(PRODUCT), output, "half a turn",
                    "|x| grows from 1 at the constant rate c f, and |delta| is 1 above", known=((PRODUCT, product),)),
              Solved(8, SIZE, turned.subs(lengths, output / sp.sin(TURN)), size, "solve", "phi = c g"),
              PutIn(9, UPDATES, (SIZE * OUTPUT / sp.sin(TURN)) ** 2, updates, "squares",
                    "|A| = c |x| |delta| in every layer", known=known),
              PutIn(10, RIDGE, DECAY * SIZE / OUTPUT, ridge, "ridge",
                    "b = lambda c in the direction of the weights, of length f", known=known),
              Solved(11, WEIGHT, VARIANCE * (TEACHER - WEIGHT) - RIDGE * WEIGHT, weight, "solve",
                     "b = covariance (teacher - weights), and b = r weights")]
    return Proof(steps, numbers, "layers in a row by Runge and Kutta, and the state that is found", 1e-8)


def numbers(rng: np.random.Generator) -> float:
    """Two streams through the layers of a random state, their complex slopes, and a found state of ridge regression."""
    x, d, c = *rng.normal(size=(2, 2)), float(rng.uniform(0.5, 2.0))
    tiny = 1e-30
    moved = x + 1j * tiny * c * d * (x @ x), d - 1j * tiny * c * x * (d @ d)
    made = (moved[0] @ moved[1], moved[0][0] * moved[1][1] - moved[0][1] * moved[1][0], moved[0] @ moved[0],
            *(np.arctan(one[1] / one[0]) for one in moved))
    put = {SIZE: c, OUTPUT: x @ d, CROSS: x[0] * d[1] - x[1] * d[0], SQUARE: x @ x}
    equations = statement().equations
    worst = max(abs(one.imag / tiny - float(equation.value.subs(put))) for one, equation in zip(made, equations))

    covariance = np.diag(rng.uniform(0.3, 2.0, 2))
    teacher, decay = rng.uniform(0.3, 0.9, 2), float(rng.uniform(0.05, 0.4))
    found = stationary_state(Stream(covariance, teacher), decay)
    known = {TURN: found.angle, DECAY: decay}
    product, output, size, updates, ridge = (float(equation.value.subs(known)) for equation in equations[5:10])
    weights = [float(equations[10].value.subs({RIDGE: ridge, VARIANCE: s, TEACHER: w}))
               for s, w in zip(np.diag(covariance), teacher)]

    def through(_: float, state: np.ndarray) -> np.ndarray:
        stream, back = state[:2], state[2:]
        return np.concatenate([size * back * (stream @ stream), -size * stream * (back @ back)])

    back = np.exp(product) * np.array([np.sin(found.angle), np.cos(found.angle)])  # a right angle less the turn ahead
    end = solve_ivp(through, (0.0, 1.0), [1.0, 0.0, *back], "DOP853", rtol=3e-14, atol=1e-15).y[:, -1]
    pull = covariance @ (teacher - weights)
    return max(worst, *np.abs(end[2:] - [0.0, 1.0]), abs(end[1] - output), abs(product - size * output),
               abs(updates - size**2 * (end[:2] @ end[:2])), *np.abs(weights - found.weights),
               abs(updates - found.squared_norm), abs(np.linalg.norm(weights) - output),
               *np.abs(pull - decay * size * found.weights / output), abs(balanced(found.angle)[0] - output))


def settled(depth: int, stream: Stream, decay: float) -> np.ndarray:
    """Weights of a network of so many layers 1 + A / L after long gradient descent with decay, from A = 0."""
    d = stream.dimension
    layers, rate = np.zeros((depth, d + 1, d + 1)), 0.2
    for _ in range(600):
        below = [np.eye(d + 1)]
        for one in layers:
            below.append(below[-1] + one @ below[-1] / depth)
        pull = np.zeros((d + 1, d + 1))
        pull[d, :d] = stream.covariance @ (stream.teacher - below[-1][d, :d])
        above, moves = np.eye(d + 1), np.empty_like(layers)
        for l in reversed(range(depth)):
            moves[l] = above.T @ pull @ below[l].T
            above = above + above @ layers[l] / depth
        layers = layers + rate * (moves - decay * layers)
    return np.asarray(below[-1][d, :d])


def evidence() -> Evidence:
    """Networks of finitely many layers that are trained until they rest, on inputs of two variances that correlate."""
    stream, decay = Stream(np.array([[1.5, 0.4], [0.4, 0.6]]), np.array([0.7, -0.5])), 0.2
    said = stationary_state(stream, decay).weights
    found = [settled(depth, stream, decay) for depth in DEPTHS]
    off = tuple(float(np.max(np.abs(one - said))) for one in found)
    far = float(np.max(np.abs(2 * found[-1] - found[-2] - said)))
    return Evidence((MeasuredNumber("weights of 16 and 32 layers, extrapolated, against the state", far, 1e-3, 0.0),),
                    (Rate("weights at finite depth against the state", "L", 1.0, DEPTHS, off, allowance=0.1),))


ENTRY = Entry(
    key="tpcalc/stationary_state",
    kind="proposition",
    title="with weight decay the rest is ridge regression, with a ridge that depends on the solution",
    source="tpcalc (new)",
    says="Layers $W_l = 1 + A_l / L$ at infinite depth, with a decay $\\lambda$ of $A$, inputs of any covariance "
         "$\\Sigma$ with variances $s_i$, and a teacher $w^*$. At rest $\\lambda A = \\delta x_b^\\top$, $x_b$ the "
         "stream of $b = \\Sigma (w^* - w)$ and $\\delta$ what comes back from the readout. With $x$ the stream of "
         "$b / |b|$ it is $A = c\\, \\delta x^\\top$, $c = |b| / \\lambda$. Along the layers $f = \\langle x, "
         "\\delta \\rangle$ and the area $g = x \\wedge \\delta$ stay, $x$ and $\\delta$ turn at one rate, by "
         "$\\phi$ in all, and the stream starts at a right angle to where $\\delta$ ends. Streams orthogonal to "
         "$x$ do not move, so that the weights are $f$ along $b$, and $b = r w$: ridge regression, of a ridge $r$ "
         "that depends on $\\phi$, which is such that $|w| = f$.",
    statement=statement,
    assumptions=("infinite depth; initial matrices that leave nothing, or are forgotten", "alpha + gamma = 1"),
    derive=derive,
    evidence=evidence,
)
