"""Compare rankers fairly: one split, full rankings, intervals over users, baselines in every table.

Knows rankers by their contract (`Ranker`), splits and metrics. Must not know any estimator but the baselines.
"""

from halfstep.judge.result import Comparison, Estimate, Result
from halfstep.judge.run import METRICS, PROTOCOLS, Ranker, evaluate
from halfstep.judge.splits import Split, leave_k_out, strong_generalisation, time_split

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "Comparison",
    "Estimate",
    "Ranker",
    "Result",
    "Split",
    "evaluate",
    "leave_k_out",
    "strong_generalisation",
    "time_split",
]
