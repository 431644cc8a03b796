"""Who talks to whom: graphs, mixing matrices, the version table, and the messages of one iteration.

This room owns everything about the network and nothing about the problem; it imports errors and extras. Its chapters:

    network             the graph with its mixing matrix W
    graphs              topologies: read, generated, measured
    mixing              the weights of W, by name or from a matrix; products with it, and its eigenvalues
    version_table       every version of NPGA as a row, with all that differs between them
    version             a version: B^2, C and D as polynomials in one gossip matrix
    matrix_version      a version given by explicit matrices
    exchange            the messages of one iteration, answered and counted; several rounds in place of one
    changing_networks   networks that are not the same in every round: sequences, links that fail, compressed messages
"""

from npga.networks._changing_networks import (
    ChangingNetwork,
    CompressedNetwork,
    Compressor,
    LossyNetwork,
    UnsteadyNetwork,
)
from npga.networks._exchange import Chebyshev, Gossip, MatrixSchedule, PolynomialSchedule, Schedule, drive
from npga.networks._matrix_version import MatrixVersion
from npga.networks._network import Network
from npga.networks._version import KernelPolynomials, Look, Matrices, Rows, Spectra, Version
from npga.networks._version_table import (
    Listing,
    VersionRow,
    VersionTable,
    html_table,
    text_table,
    version,
    version_rows,
    versions,
)

__all__ = [
    "ChangingNetwork",
    "Chebyshev",
    "CompressedNetwork",
    "Compressor",
    "Gossip",
    "KernelPolynomials",
    "Listing",
    "Look",
    "LossyNetwork",
    "Matrices",
    "MatrixSchedule",
    "MatrixVersion",
    "Network",
    "PolynomialSchedule",
    "Rows",
    "Schedule",
    "Spectra",
    "UnsteadyNetwork",
    "Version",
    "VersionRow",
    "VersionTable",
    "drive",
    "html_table",
    "text_table",
    "version",
    "version_rows",
    "versions",
]
