"""Optimizers as statements: what one step does to weights, from gradients."""

from .clipped import Clipped as Clipped
from .entrywise import Adam as Adam, AdamW as AdamW, Lion as Lion, SignSGD as SignSGD
from .muon import Muon as Muon
from .normalized import NormalizedSGD as NormalizedSGD
from .sgd import SGD as SGD
from .shampoo import Shampoo as Shampoo
from .soap import SOAP as SOAP
from .schedules import schedule as schedule
