"""Pictures: functions of a posterior or an estimator, (model, ax) -> ax, that never fit anything."""

from covary.plots.classes import plot_classes as plot_classes
from covary.plots.fit import plot_fit as plot_fit
from covary.plots.fit import plot_series as plot_series
