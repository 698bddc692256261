"""Learning hyperparameters."""

from covary.selection.closed_forms import best_scale as best_scale
from covary.selection.closed_forms import kernel_alignment as kernel_alignment
