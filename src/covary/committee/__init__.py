"""Committees of experts: many rows split across exact models whose predictions are combined, on one machine or many."""

from covary.committee.rules import (
    BCM,
    GRBCM,
    RBCM,
    RULES,
    AbstractRule,
    GPoE,
    Nearest,
    PoE,
    Sums,
    combine,
    entropy_drop,
    joint_bcm,
)
from covary.committee.settings import Committee
from covary.tables.parquet import Parquet

__all__ = [
    "BCM",
    "GRBCM",
    "RBCM",
    "RULES",
    "AbstractRule",
    "Committee",
    "GPoE",
    "Nearest",
    "Parquet",
    "PoE",
    "Sums",
    "combine",
    "entropy_drop",
    "joint_bcm",
]
