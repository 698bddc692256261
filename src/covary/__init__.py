"""covary: learning from data with honest error bars."""

from covary.data import Data as Data
from covary.inference.condition import condition as condition
from covary.model import GP as GP
from covary.model import Model as Model
from covary.selection.learn import learn as learn
from covary.selection.objectives import log_evidence as log_evidence
from covary.selection.objectives import log_evidence_and_grad as log_evidence_and_grad

__version__ = "0.1.0"
