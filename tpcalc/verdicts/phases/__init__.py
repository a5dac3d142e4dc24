"""Phase diagrams: planes of exponents cut into regions of equal verdicts, laid out and drawn."""

from .diagram import PhaseDiagram as PhaseDiagram, PhaseRegion as PhaseRegion, phase_diagram as phase_diagram
