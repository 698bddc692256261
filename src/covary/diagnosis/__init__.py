"""Checks of a fit: each is a number with a threshold, an explanation, advice and a plot."""

from covary.diagnosis.diagnose import diagnose as diagnose
from covary.diagnosis.diagnose import quick_warnings as quick_warnings
from covary.fits.checks import Diagnosis as Diagnosis
from covary.fits.training import Judged as Judged
