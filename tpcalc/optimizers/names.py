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
