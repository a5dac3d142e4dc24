"""Verdicts on transformers against plain arrays with gradients by hand, of more positions than are counted."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.plain_transformer import PlainTransformer
from tpcalc.orders import Label
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec
from tpcalc.testing.extrapolation import slope

HALF = sp.Rational(1, 2)
SMALL, WHOLE = tp.Transformer(head_dim=2, positions=3, mlp=None), tp.Transformer(head_dim=2, positions=3)
XI, Y = np.array([[0.6], [-0.4], [0.9]]), np.array([[-0.3], [0.4], [0.2]])
DEPTHS = (8, 16, 32, 64)


@lru_cache(maxsize=None)
def changes(mlp: str | None, alpha: float, gamma: float, depth: int, width: int = 64, seeds: int = 12,
            rate: float = 0.3) -> dict[str, dict[str, float]]:
    """Root mean squares, by matrix that alone is updated: of the change of the stream, of f, and of the update times
    what the last layer's matrix acts on at first."""
    squares: dict[str, dict[str, list[float]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        names = ["Wq", "Wk", "Wv", "Wo", *(["W1", "W2"] if mlp else [])]
        w = {name: rng.standard_normal((depth, width, width)) / np.sqrt(width) for name in names}
        w |= {"U": rng.standard_normal((width, 1)), "nV": rng.standard_normal((width, 1))}
        plain = PlainTransformer(head_dim=2, eps=depth**-alpha, mlp=mlp)
        f, (*_, x) = plain.forward(w, XI)
        gradients = plain.gradients(w, XI, -Y)  # at infinite width f starts at 0
        for name in names:
            moved = {**w, name: w[name] - rate * depth ** (alpha - gamma) * gradients[name]}
            after, (*_, last) = plain.forward(moved, XI)
            own = squares.setdefault(name, {"effect": [], "output": []})
            own["effect"].append(np.mean((last - x)**2))
            own["output"].append(np.mean((after - f)**2))
    return {name: {kind: float(np.sqrt(np.mean(values))) for kind, values in own.items()}
            for name, own in squares.items()}


def assert_slopes(net: tp.Transformer, alpha: sp.Rational, gamma: sp.Rational, depths: tuple[int, ...]
                  ) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Powers of L matrix by matrix, within .1 or three standard errors of the fit with a correction 1/L."""
    verdict, found = tp.classify(alpha, gamma, net), {}
    rows = [changes(net.mlp, float(alpha), float(gamma), depth) for depth in depths]
    for name, one in verdict.matrices.items():
        for kind in ("effect", "output"):
            s, error = slope(depths, np.array([row[name][kind] for row in rows]), [1.0])
            derived = float(getattr(one, kind))
            found[name, kind] = derived, s, error
            assert abs(s - derived) <= max(0.1, 3 * error), (name, kind, derived, s, error)
    return found


@pytest.mark.slow
def test_every_matrix_of_attention_learns_as_real_ones_do() -> None:
    """No power of L, over four times the depth; 1/4 would be seen."""
    shallow, deep = (changes(None, 0.5, 0.5, depth, seeds=8) for depth in (16, 64))
    for name, one in tp.classify(HALF, HALF, SMALL).matrices.items():
        for kind in ("effect", "output"):
            s = np.log(deep[name][kind] / shallow[name][kind]) / np.log(4)
            assert abs(s - float(getattr(one, kind))) < 0.2, (name, kind, s)


@pytest.mark.slow
@pytest.mark.parametrize("net", [SMALL, WHOLE], ids=["attention", "whole"])
@pytest.mark.parametrize("alpha, gamma", [(HALF, HALF), (sp.Integer(1), sp.Integer(0)), (HALF, sp.Rational(3, 4)),
                                          (sp.Rational(3, 4), sp.Rational(1, 4)), (HALF, sp.Rational(1, 4))])
def test_every_matrix_learns_as_real_ones_do(net: tp.Transformer, alpha: sp.Rational, gamma: sp.Rational) -> None:
    for key, (derived, s, error) in assert_slopes(net, alpha, gamma, DEPTHS).items():
        print(alpha, gamma, *key, derived, f"{s:.3f} +- {error:.3f}")


def test_what_is_lazy_drifts_and_learns() -> None:
    by_point = {point: tp.classify(*point, SMALL) for point in ((HALF, HALF), (1, 0), (HALF, sp.Rational(3, 4)))}
    assert [one.name for one in by_point.values()] == ["Depth-muP", "ODE limit", "trivial"]
    assert [{m.name for m in one.matrices.values()} for one in by_point.values()] == [{"drifts"}, {"learns"}, {"lazy"}]
    assert [one.exponents["change of score"] for one in by_point.values()] == [0, 0, -sp.Rational(1, 4)]
    assert all(one.exponents["score at initialisation"] == 0 for one in by_point.values())
    assert "which stand for all head_dim and positions" in str(by_point[1, 0])


def test_one_matrix_may_be_lazy_alone() -> None:
    gammas = {"Wq": 1, "Wk": HALF, "Wv": HALF, "Wo": HALF}
    found = tp.classify(tp.Parametrization(depth={"alpha": HALF, **gammas}), SMALL)
    assert {name: one.name for name, one in found.matrices.items()} == {
        "Wq": "lazy", "Wk": "drifts", "Wv": "drifts", "Wo": "drifts"}


def exponential(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("V"), b.x))
    return MatVec(b.weights("Wo"), b.let_total("mixed", sp.exp(b.let("s", v * b.other(v))) * b.other(v)))


@pytest.mark.parametrize("net, opt, said", [
    (tp.Transformer(head_dim=3, positions=2, qk_norm=True), None, "qk_norm: True given"),
    (tp.Transformer(head_dim=2, positions=1), None, "positions: 1 given"),
    (tp.Transformer(head_dim=2, positions=2, train_ends=True), None, "frozen ends"),
    (tp.Transformer(head_dim=2, positions=2, mlp=None, attention=exponential), None, "faster than every power")])
def test_what_cannot_be_counted_is_refused(net: tp.Transformer, opt: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.classify(HALF, HALF, net, opt)


def test_weight_decay_is_refused() -> None:
    with pytest.raises(ValueError, match="weight_decay: 0.1 given"):
        tp.classify(HALF, HALF, SMALL, tp.SGD(weight_decay=0.1))


def test_parts_that_may_be_averaged_are_all_their_parts() -> None:
    """Every product of two parts, against sets written out."""
    labels = [Label.of(frozenset(sure), frozenset(maybe)) for sure in ((), (0,), (1,), (-1,), (0, -1))
              for maybe in ((), (0,), (1, 2), (0, 1, -1))]
    for one in labels:
        for two in labels:
            products = {a.sources ^ b.sources | kept for a in one.each() for b in two.each()
                        for kept in map(frozenset, _subsets(a.sources & b.sources))}
            assert {label.sources for label in one.times(two).each()} == products
        random = [label.sources for part in one.random() for label in part.each()]
        assert sorted(map(sorted, random)) == sorted(sorted(label.sources) for label in one.each() if label.sources)
        within = {label.sources for part in one.within(frozenset((0, -1))) for label in part.each()}
        assert within == {label.sources for label in one.each() if label.sources <= {0, -1}}


def _subsets(sources: frozenset[int]) -> list[tuple[int, ...]]:
    ordered = sorted(sources)
    return [tuple(s for i, s in enumerate(ordered) if bits >> i & 1) for bits in range(2**len(ordered))]
