"""Learning hyperparameters."""

from covary.selection.closed_forms import best_scale as best_scale
from covary.selection.closed_forms import kernel_alignment as kernel_alignment
from covary.selection.left_out import GeneralisedCrossValidation as GeneralisedCrossValidation
from covary.selection.left_out import KFold as KFold
from covary.selection.left_out import LeaveOneOut as LeaveOneOut
