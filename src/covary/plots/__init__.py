"""Pictures: functions (posterior, ax) -> ax that never fit anything."""

from covary.plots.fit import plot_fit as plot_fit
from covary.plots.fit import plot_series as plot_series
