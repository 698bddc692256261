"""The report of a fit: one self-contained HTML file."""

from covary.report.page import write_report as write_report
