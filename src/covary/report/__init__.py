"""The report of a fit: one HTML file that needs nothing else."""

from covary.report.page import write_report as write_report
