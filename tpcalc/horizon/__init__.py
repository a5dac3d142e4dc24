"""Long training: what a linear network's loss becomes, and what moves with batch, steps and decay."""

from .curve import OutputCurve as OutputCurve, CurvePoint as CurvePoint
from .linear import (BestRate as BestRate, LongHorizon as LongHorizon, StationaryState as StationaryState,
                     long_horizon as long_horizon)
from .power_law import PowerLaw as PowerLaw, power_law as power_law
from .risk import Risk as Risk
from .stream import Stream as Stream
from .timescale import Timescale as Timescale, timescale as timescale
from .transfer_rule import (BatchPowers as BatchPowers, BatchRegion as BatchRegion, TransferRule as TransferRule,
                            transfer_rule as transfer_rule)
