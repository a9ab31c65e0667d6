"""Whether to believe synthetic rows: every number beside what real rows score among themselves, and one page of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countjump.atomic import check_writable, write_atomically
from countjump.evaluation.columns import ColumnFit, fit_columns, fit_rows
from countjump.evaluation.joint import JointFit, fit_joint
from countjump.evaluation.measures import Measure
from countjump.evaluation.safety import Safety, fit_safety
from countjump.evaluation.usefulness import Usefulness, fit_usefulness
from countjump.evaluation.verdict import Verdict, conclude
from countjump.metrics.reading import Tables, read

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """All that was found, part by part."""

    tables: Tables
    columns: ColumnFit
    rows: ColumnFit | None
    joint: JointFit
    useful: Usefulness | None
    safety: Safety
    verdict: Verdict
    label: str | None
    seed: int

    def measures(self) -> list[Measure]:
        """In the order of the page."""
        rows = self.rows.measures("row") if self.rows else []
        useful = self.useful.measures if self.useful else []
        ends = [*self.joint.measures, *useful, *self.safety.measures]
        return [*self.verdict.measures(), *self.columns.measures(), *rows, *ends]

    def frame(self) -> pd.DataFrame:
        """A line per number: part, metric, column, value, floor, floor_sd, real, synthetic, judgement, meaning."""
        import pandas as pd

        return pd.DataFrame([asdict(measure) for measure in self.measures()])


def evaluate(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    label: Any = None,
    out: str | Path | None = None,
    random_state: int = 0,
) -> pd.DataFrame:
    """Compare synthetic rows with the real rows that a model was trained on, and say whether to believe them.

    ``real``, ``synthetic`` and ``holdout`` (real rows that the model has not seen) are DataFrames, arrays, scipy sparse matrices or
    AnnData objects. ``label`` names a column (of an AnnData object's ``obs``, too) to predict. ``out`` is where the page goes: one
    HTML file that needs nothing else. A missing value is a state of its own: its share is compared, and values among the present.

    The frame has a line per number: the part, the metric, the column, the value, its floor (what real rows score against other real
    rows, in samples of the same size) with its standard deviation, both sides where there are two, a judgement ("good", "fair",
    "poor", or none), and what it means. The lines of the part "verdict" are the conclusions.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = evaluate(rng.poisson(3, (200, 3)), rng.poisson(3, (200, 3)))
    >>> found.query("part == 'verdict' and metric == 'overall'").judgement.item()
    'good'
    """
    if out is not None:
        check_writable(out)
    found = _found(read(real, synthetic, holdout, label), None if label is None else str(label), int(random_state))
    if out is not None:
        from countjump.evaluation.page import page

        write_atomically(out, page(found).encode())
    return found.frame()


def _found(tables: Tables, label: str | None, seed: int) -> Evaluation:
    real, synthetic, holdout = tables.real, tables.synthetic, tables.holdout
    columns = fit_columns(real, synthetic, seed)
    rows = fit_rows(real, synthetic, seed)
    joint = fit_joint(real, synthetic, seed)
    useful = None if label is None else fit_usefulness(real, synthetic, holdout, label, seed)
    safety = fit_safety(real, synthetic, holdout, seed)
    verdict = conclude(columns, rows, joint, useful, safety)
    return Evaluation(tables, columns, rows, joint, useful, safety, verdict, label, seed)
