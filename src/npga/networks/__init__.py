"""Who talks to whom: graphs, mixing matrices, the version table, and the messages of one iteration."""

from npga.networks._gossip import Gossip
from npga.networks._matrix_version import MatrixVersion
from npga.networks._network import Network
from npga.networks._polynomial import KernelPolynomials
from npga.networks._rows import version
from npga.networks._schedule import MatrixSchedule, PolynomialSchedule, Schedule, drive
from npga.networks._table import VersionTable, versions
from npga.networks._version import Matrices, Spectra, Version

__all__ = [
    "Gossip",
    "KernelPolynomials",
    "Matrices",
    "MatrixSchedule",
    "MatrixVersion",
    "Network",
    "PolynomialSchedule",
    "Schedule",
    "Spectra",
    "Version",
    "VersionTable",
    "drive",
    "version",
    "versions",
]
