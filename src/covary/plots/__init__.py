"""Plotting functions of a posterior, an estimator or plain arrays: (model, ax) -> ax, without fitting anything."""

from covary.plots.calibration import plot_calibration as plot_calibration
from covary.plots.calibration import plot_coverage as plot_coverage
from covary.plots.calibration import plot_pit as plot_pit
from covary.plots.calibration import plot_reliability as plot_reliability
from covary.plots.classes import plot_classes as plot_classes
from covary.plots.components import plot_components as plot_components
from covary.plots.dependence import dependence as dependence
from covary.plots.dependence import plot_dependence as plot_dependence
from covary.plots.evidence import plot_evidence as plot_evidence
from covary.plots.fit import plot_fit as plot_fit
from covary.plots.fit import plot_series as plot_series
from covary.plots.held_out import left_out as left_out
from covary.plots.held_out import left_out_classes as left_out_classes
from covary.plots.history import plot_history as plot_history
from covary.plots.history import plot_restarts as plot_restarts
from covary.plots.kernel import plot_gram as plot_gram
from covary.plots.kernel import plot_kernel as plot_kernel
from covary.plots.kernel import plot_prior as plot_prior
from covary.plots.kernel import plot_spectrum as plot_spectrum
from covary.plots.predicted import plot_predicted as plot_predicted
from covary.plots.predicted import plot_residuals as plot_residuals
from covary.plots.relevance import plot_relevance as plot_relevance
from covary.plots.relevance import relevance as relevance
from covary.plots.style import svg as svg
from covary.plots.style import theme as theme
