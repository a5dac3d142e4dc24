"""Expectations of Gaussian variables: rules, closed forms, quadrature, Hermite series, functions of one variable."""

from .expectations import derive_expectation as derive_expectation, expectation as expectation
from .closed_forms import Moments as Moments, Phases as Phases, Values as Values
from .rules import (Blur as Blur, ConditionOnForm as ConditionOnForm, Degenerate as Degenerate,
                    IndependentFactors as IndependentFactors, Linearity as Linearity, Open as Open, Parity as Parity,
                    Price as Price, Shift as Shift, SquareInExponent as SquareInExponent, Stein as Stein)
from .variables import Expectation as Expectation, Gaussians as Gaussians
