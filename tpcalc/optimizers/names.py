"""Optimizers by their names, with their default settings."""

from __future__ import annotations

from .entrywise import Adam, AdamW, Lion, SignSGD
from .muon import Muon
from .normalized import NormalizedSGD
from .sgd import SGD
from .shampoo import Shampoo
from .soap import SOAP
from .updates import Optimizer

BY_NAME: dict[str, Optimizer] = {
    "sgd": SGD(), "momentum": SGD(momentum=0.9), "signsgd": SignSGD(), "lion": Lion(), "adam": Adam(), "adamw": AdamW(),
    "muon": Muon(), "normalizedsgd": NormalizedSGD(), "shampoo": Shampoo(), "soap": SOAP()}
# on Frobenius spheres by steps relative to the norm, W <- |W_0| (W - lr |W_0| U / |U|) over its norm: along whose U
RELATIVE = {"muonh": Muon(sphere=True), "adamh": Adam(sphere=True)}
