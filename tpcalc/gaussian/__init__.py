"""Expectations of Gaussian variables: rules, closed forms, quadrature, Hermite series, functions of one variable."""

from .expectations import derive_expectation as derive_expectation, expectation as expectation
from .rules import (Blur as Blur, ConditionOnForm as ConditionOnForm, Degenerate as Degenerate,
                    IndependentFactors as IndependentFactors, Linearity as Linearity, Moments as Moments, Open as Open,
                    Parity as Parity, Phases as Phases, Price as Price, Shift as Shift,
                    SquareInExponent as SquareInExponent, Stein as Stein, Values as Values)
from .variables import Expectation as Expectation, Gaussians as Gaussians
