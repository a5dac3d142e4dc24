"""Derivations: steps that are recorded and can be checked, as text, LaTeX and MathML."""

from .derivation import Derivation as Derivation, Step as Step
