"""Benchmarks: covary against LAPACK, against itself and against its peers, all measured in the same run.

``python -m benchmarks.run`` runs every script and prints its tables; each script has one function, ``run(smoke)``, that
returns a :class:`benchmarks.report.Report`.
"""
