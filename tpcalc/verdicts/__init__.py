"""Which scalings work, and why: verdicts from derived exponents, and measured ones beside them."""

from .classify import classify as classify
from .interactions import Interaction as Interaction, interactions as interactions
from .network_sizes import MatrixVerdict as MatrixVerdict, NetworkSizes as NetworkSizes
from .verdict import Verdict as Verdict
