"""The paper's experiments on the real data: data, definitions, runs to tables, figures from tables."""

from npga.experiments._boston import load_boston
from npga.experiments._covtype import load_covtype
from npga.experiments._dataset import Dataset
from npga.experiments._elastic_net import ElasticNet
from npga.experiments._experiment import Experiment
from npga.experiments._fetch import FetchError, data_folder, fetch_covtype
from npga.experiments._instance import Instance
from npga.experiments._logistic import Logistic, LogisticCoupled
from npga.experiments._protocol import ALL_VERSIONS, PAPER_VERSIONS, Protocol
from npga.experiments._provenance import provenance
from npga.experiments._report import Report, draw
from npga.experiments._reproduce import reproduce
from npga.experiments._ridge import Ridge

EXPERIMENTS: dict[str, type[Experiment]] = {kind.name: kind for kind in (Ridge, Logistic, LogisticCoupled, ElasticNet)}

__all__ = [
    "ALL_VERSIONS",
    "EXPERIMENTS",
    "PAPER_VERSIONS",
    "Dataset",
    "ElasticNet",
    "Experiment",
    "FetchError",
    "Instance",
    "Logistic",
    "LogisticCoupled",
    "Protocol",
    "Report",
    "Ridge",
    "data_folder",
    "draw",
    "fetch_covtype",
    "load_boston",
    "load_covtype",
    "provenance",
    "reproduce",
]
