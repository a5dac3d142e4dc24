"""Entrywise functions of outer products, as in SignSGD and Adam."""

from __future__ import annotations

import numpy as np

from tpcalc.ledger import Entry, Evidence, Formula, Number

WIDTH = 200


def evidence() -> Evidence:
    """The averages over an independent copy, taken over the n coordinates, are exact at finite n."""
    u, v, z = np.random.default_rng(0).standard_normal((3, WIDTH))
    outer = np.outer(u, v)
    linear = np.abs(outer @ z / WIDTH - u * np.mean(v * z)).max()
    square = np.abs(outer**2 @ z / WIDTH - u**2 * np.mean(v**2 * z)).max()
    twice = np.abs(outer**2 @ z / WIDTH - outer @ (outer @ z / WIDTH) / WIDTH).max()
    return Evidence((Number("phi(t) = t: difference from the outer product", float(linear), 1e-12, 0.0),
                     Number("phi(t) = t^2: difference from |u^2><v^2|", float(square), 1e-12, 0.0),
                     Number("phi(t) = t^2: is it far from the operator applied twice? (1: yes)", float(twice > 0.1),
                            1e-12, 1.0)))


ENTRY = Entry(
    key="tensor_programs_vi/nonlinear_outer_product",
    kind="definition",
    title="nonlinear outer product",
    source="Tensor Programs VI, appendix E.1.3 and remark E.2",
    says="Marked kets are independent copies, and $E$ is over them alone. $\\phi$ acts on coordinates: it is not the "
         "function of an operator.",
    statement=lambda: Formula(r"\phi\left(| u \rangle\langle v |\right) | z \rangle &:= \mathbb{E}_{1}\, "
                              r"\phi\left(| u \rangle\, | v \rangle_{1}\right) | z \rangle_{1}"),
    uses=("tensor_programs_vi/outer_product",),
    evidence=evidence,
)
