"""Parameter groups of models: roles from names and shapes, powers from recipes. Needs no torch."""

from .plan import PlanEntry as PlanEntry, Plan as Plan, plan_shapes as plan_shapes
from .roles import Parameter as Parameter, Roles as Roles, find_roles as find_roles
