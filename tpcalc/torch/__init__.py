"""Plans, audits, depth checks and sweeps of the PyTorch models that people train; the extra "torch"."""

from ..errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra("torch", "torch", "tpcalc.torch") from None

from .reading.reading import Reading as Reading, read as read  # noqa: E402
from .model_plan import ModelPlan as ModelPlan  # noqa: E402
from .families import PlanFamily as PlanFamily  # noqa: E402
from .planning import plan as plan  # noqa: E402
from .saved_plans import load as load  # noqa: E402
from .auditing import ModelAudit as ModelAudit, audit as audit  # noqa: E402
from .depth_check import DepthCheck as DepthCheck, depth_check as depth_check  # noqa: E402
from .sweep import TransferSweep as TransferSweep  # noqa: E402
from .callbacks import callback as callback  # noqa: E402
from .transferring import transfer as transfer  # noqa: E402
