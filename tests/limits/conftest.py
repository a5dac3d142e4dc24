"""Recursions and their limits, derived once for all tests of the folder."""

from __future__ import annotations

import pytest
import sympy as sp

import tpcalc as tp

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


def recursion_of(net: tp.ResNet, scale: tp.DepthScaling) -> tp.theory.Recursion:
    return tp.recursion(tp.kets(tp.program(net, tp.SGD(), scale)))


@pytest.fixture(scope="session")
def recursion() -> tp.theory.Recursion:
    return recursion_of(tp.ResNet(), tp.DepthScaling(ALPHA, GAMMA))


@pytest.fixture(scope="session")
def limit(recursion: tp.theory.Recursion) -> tp.theory.DepthLimit:
    return tp.depth_limit(recursion)


@pytest.fixture(scope="session")
def mlp() -> tp.theory.DepthLimit:
    return tp.depth_limit(recursion_of(tp.ResNet(block="mlp"), tp.DepthScaling(ALPHA, GAMMA)))
