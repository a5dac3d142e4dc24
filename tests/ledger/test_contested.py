"""Contested statements: their checks fail where the other party is taken at its word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.proofs_module import proofs_module
from tpcalc.ledger import Entry, check_entry, entry
from tpcalc.ledger.catalogue import keys
from tpcalc.ledger.spoiling import read_equations

CONTESTED = [key for key in keys() if key.startswith("contested/")]


@pytest.mark.nightly
@pytest.mark.parametrize("key", CONTESTED)
def test_every_equation_is_read(key: str) -> None:
    assert [str(one) for one in read_equations(entry(key)) if not one.is_read] == []


def test_the_plain_network_moves_its_matrices_by_its_gradient() -> None:
    """Every matrix of a block, kept and damped streams, by finite differences of the output."""
    network = proofs_module("contested._networks").PlainNetwork(3, 7, gammas=(0.0, 0.0), phi="tanh", keep=0.9,
                                                                branch=1.3)
    matrices, updates, step = network.draws[2], network.updates, 1e-6
    for where in ((2, 0, 3, 4), (2, 1, 3, 4), (0, 0, 1, 2), (1, 1, 6, 0)):
        up, down = matrices.copy(), matrices.copy()
        up[where] += step
        down[where] -= step
        slope = (network.output(up) - network.output(down)) / (2 * step)
        assert slope == pytest.approx(updates[where] * network.multiplier, abs=1e-9)


def test_independent_matrices_are_the_ones_that_are_multiplied_with() -> None:
    """Of the program and of the network: without them the two equations of the entry would be one."""
    module = proofs_module("contested.reused_weights")
    _, apart = module.recursions(module.DEPTH_MUP)
    backward = [one for one in str(apart).splitlines() if one.startswith("Gamma[t,r,1,b](l - 1; m)")]
    assert len(backward) == 1 and "Gamma[t,s" not in backward[0]
    network = proofs_module("contested._networks").PlainNetwork(2, 5, reused=False)
    assert abs(network.draws[2] - network.draws[3]).min() > 0


def swapped(one: Entry) -> Entry:
    """The entry with what is printed and what is derived in each other's places."""
    def turned(erratum: object) -> object:
        def witness() -> object:
            found = erratum.witness()  # type: ignore[attr-defined]
            return replace(found, printed=found.corrected, corrected=found.printed)
        return replace(erratum, witness=witness)  # type: ignore[type-var]
    return replace(one, evidence=None, errata=tuple(map(turned, one.errata)))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [key for key in CONTESTED if entry(key).errata])
def test_the_other_party_fails_the_witness(key: str) -> None:
    right = check_entry(replace(entry(key), evidence=None))
    assert right.failures == () and right.errata
    assert len(check_entry(swapped(entry(key))).failures) == 2 * len(right.errata)


def test_orders_are_printed_in_their_variable() -> None:
    module = proofs_module("contested.decay_timescale")
    assert module.OF_SIGNS_IN_WIDTH.latex().startswith(r"\tau &= O\left(n^{1}\right)")
    assert module.OF_SGD.latex().startswith(r"\tau &= O\left(L^{- \alpha + \gamma}\right)")
