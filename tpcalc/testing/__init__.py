"""Hypothesis strategies and laws for property-based tests of claims about wide and deep networks."""

from .agreement import assert_readings_agree as assert_readings_agree
from .deep_blocks import drawn_block as drawn_block
from .deep_laws import (
    assert_limit_agrees as assert_limit_agrees,
    assert_names_do_not_matter as assert_names_do_not_matter,
    assert_recursion_agrees as assert_recursion_agrees,
    assert_steps_hold as assert_steps_hold,
    has_limit as has_limit,
)
from .drawn_programs import (
    DeepProgram as DeepProgram,
    Recipe as Recipe,
    deep_program as deep_program,
    deep_programs as deep_programs,
)
from .programs import ProgramExample as ProgramExample, linear_programs as linear_programs
from .refusals import Refused as Refused, refused_or as refused_or
from .rewriting import renamed as renamed, with_named_products as with_named_products
from .rolled import RolledReading as RolledReading, read_rolled as read_rolled
from .strategies import (
    Problem as Problem,
    arrays as arrays,
    learning_rates as learning_rates,
    optimizers as optimizers,
    problems as problems,
    rationals as rationals,
    scalings as scalings,
    schedules as schedules,
    tasks as tasks,
)
from .verdict_laws import (
    assert_verdict_agrees as assert_verdict_agrees,
    assert_verdict_ignores_names as assert_verdict_ignores_names,
)
