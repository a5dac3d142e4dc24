"""Which depth scalings work, and why: verdicts from derived exponents, and measured ones beside them."""

from .classify import classify as classify
from .diversity import Differences as Differences, Diversity as Diversity, measure_diversity as measure_diversity
from .evidence import Measured as Measured, measure_exponents as measure_exponents
from .verdict import Verdict as Verdict
