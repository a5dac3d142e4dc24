"""Plans, audits and depth checks of the PyTorch models that people train; the extra "torch"."""

from ..errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra("torch", "torch", "tpcalc.torch") from None

from .reading.reading import Reading as Reading, read as read  # noqa: E402
from .planning import ModelPlan as ModelPlan, plan as plan  # noqa: E402
from .auditing import ModelAudit as ModelAudit, audit as audit  # noqa: E402
from .depth_check import DepthCheck as DepthCheck, depth_check as depth_check  # noqa: E402
