"""Benchmarks that compare covary with LAPACK, with itself and with other libraries in the same run.

``python -m benchmarks.run`` runs every script and prints its tables. Each script has one function, ``run(smoke)``, that
returns a :class:`benchmarks.report.Report`.
"""
