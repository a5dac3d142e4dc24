"""The engine behind ``proofs/``: entries, their checks, statuses, the graph of uses, the document, citations."""

from .checking import Account as Account, Ledger as Ledger, check as check, check_entry as check_entry
from .citations import Citation as Citation, cite as cite
from .entry import (Entry as Entry, Equation as Equation, Equations as Equations, Formula as Formula,
                    OrderBound as OrderBound)
from .errata import Erratum as Erratum, Slip as Slip, Witness as Witness
from .evidence import Evidence as Evidence, MeasuredNumber as MeasuredNumber, Rate as Rate
from .graph import closure as closure, dot as dot
from .proof import Identity as Identity, Proof as Proof
from .catalogue import entries as entries, entry as entry
from .status import Standing as Standing, Status as Status
