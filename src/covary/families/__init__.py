"""Families of models: one file or package for each, with everything specific to it.

The names below register a family of another package. Importing them is fast, which ``covary fit --help`` requires.
"""

from covary._families import Options as Options
from covary._families import Registration as Registration
from covary._families import Setting as Setting
