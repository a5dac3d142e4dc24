"""General readings of a network: exact coefficients, and real networks of finite width."""

from .coefficients import KetCoefficients as KetCoefficients, read_coefficients as read_coefficients
from .dense import DenseRun as DenseRun, run_dense as run_dense
from .lowered_conditioned import conditioned as conditioned
from .lowered_particles import LoweredParticles as LoweredParticles, particles as particles
from .program_coefficients import read_program_coefficients as read_program_coefficients
from .registry import UnhandledNode as UnhandledNode
from .steps import StepCheck as StepCheck, check_steps as check_steps
from .training import DenseRecord as DenseRecord
from .vectors import ProgramRun as ProgramRun, run_program as run_program
