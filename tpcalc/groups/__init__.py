"""Parameter groups of models: roles from names and shapes, powers from recipes. Needs no torch."""

from .plan import PlanEntry as PlanEntry, Plan as Plan, plan_shapes as plan_shapes
from ..tune.parameters import Parameter as Parameter
from .roles import Roles as Roles, find_roles as find_roles
