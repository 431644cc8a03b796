"""The paper's experiments on the real data: data, definitions, runs to tables, figures from tables.

This room owns the data and the reproduction of the paper's figures. It calls `npga.tuning`, `npga.theory`,
`npga.solver` and what lies below them by their public names; only `npga.cli` imports it. Its chapters:

_datasets
    The two tables, their scalings, and how the full one is fetched.
_definitions
    The three experiments as problems on networks, with every choice that the paper leaves open.
_protocol
    How a version is compared: tuned, run, certified, measured.
_reproduce
    All of it in worker processes, resumable; where results come from.
_tables
    Rows to CSV files and back.
_report
    The verdict, summaries in Markdown and sections of an HTML report, from tables alone.
_figures
    Curves, bands and ratios read off the tables, and drawn.
"""

from npga.experiments._datasets import Dataset, FetchError, data_folder, fetch_covtype, load_boston, load_covtype
from npga.experiments._definitions import (
    EXPERIMENTS,
    ElasticNetExperiment,
    Experiment,
    Instance,
    LogisticCoupled,
    LogisticExperiment,
    Ridge,
)
from npga.experiments._protocol import ALL_VERSIONS, PAPER_VERSIONS, Protocol
from npga.experiments._report import Report, draw, folder_sections
from npga.experiments._reproduce import reproduce
from npga.pages import installed_version, provenance

__all__ = [
    "ALL_VERSIONS",
    "EXPERIMENTS",
    "PAPER_VERSIONS",
    "Dataset",
    "ElasticNetExperiment",
    "Experiment",
    "FetchError",
    "Instance",
    "LogisticCoupled",
    "LogisticExperiment",
    "Protocol",
    "Report",
    "Ridge",
    "data_folder",
    "draw",
    "fetch_covtype",
    "folder_sections",
    "installed_version",
    "load_boston",
    "load_covtype",
    "provenance",
    "reproduce",
]
