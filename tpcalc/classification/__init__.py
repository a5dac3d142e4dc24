"""Which depth scalings work, and why: verdicts from derived exponents, measured ones beside them, real recipes."""

from .audit import Audit as Audit, audit as audit
from .classify import classify as classify
from .interactions import Interaction as Interaction, interactions as interactions
from .phase_diagram import PhaseDiagram as PhaseDiagram, PhaseRegion as PhaseRegion, phase_diagram as phase_diagram
from .matrices import MatrixVerdict as MatrixVerdict
from .network_sizes import NetworkSizes as NetworkSizes
from ..recipes import MatrixRecipe as MatrixRecipe, matrix_recipe as matrix_recipe
from ..recipes import Recipe as Recipe, recipe as recipe
from .role_table import RoleTable as RoleTable, recipe_table as recipe_table
from .own_block import RecipeAudit as RecipeAudit, audit_matrices as audit_matrices
from .table import NamedRecipes as NamedRecipes, named_recipes as named_recipes
from .verdict import Verdict as Verdict
