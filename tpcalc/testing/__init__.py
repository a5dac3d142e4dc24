"""Hypothesis strategies and laws for property-based tests of claims about wide and deep networks."""

from .agreement import assert_interpreters_agree as assert_interpreters_agree
from .programs import ProgramExample as ProgramExample, linear_programs as linear_programs
from .strategies import (DrawnProblem as DrawnProblem, arrays as arrays, learning_rates as learning_rates,
                         optimizers as optimizers, problems as problems, rationals as rationals, resnets as resnets,
                         scalings as scalings, schedules as schedules, tasks as tasks, transformers as transformers,
                         width_scalings as width_scalings)
