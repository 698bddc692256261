"""Should I trust it: checks of a fit, each a number with a threshold, a sentence, advice and a picture."""

from covary.diagnosis.diagnose import diagnose as diagnose
from covary.diagnosis.diagnose import quick_warnings as quick_warnings
from covary.diagnosis.foretold import Foretold as Foretold
from covary.diagnosis.foretold import foretell as foretell
from covary.diagnosis.record import Check as Check
from covary.diagnosis.record import Diagnosis as Diagnosis
from covary.diagnosis.subject import Subject as Subject
