"""What the numbers mean, in sentences: one line above all, and one for every part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from countjump.evaluation.columns import ColumnFit
from countjump.evaluation.joint import LOST, JointFit
from countjump.evaluation.measures import FAIR, GOOD, POOR, Measure, worst
from countjump.evaluation.safety import Safety
from countjump.evaluation.usefulness import Usefulness

MANY = 0.02
"""The share of columns that may differ before the columns are said to."""


ENOUGH = 20
"""So many columns are far on average by no chance."""


@dataclass(frozen=True)
class Finding:
    """What is said of a part, and how bad it is."""

    part: str
    judgement: str
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """The line above all, and the findings."""

    judgement: str
    line: str
    findings: list[Finding]

    def measures(self) -> list[Measure]:
        """As lines of the frame."""
        lines = [Measure("verdict", "overall", judgement=self.judgement, meaning=self.line)]
        return lines + [Measure("verdict", f.part, judgement=f.judgement, meaning=f.sentence) for f in self.findings]


def conclude(
    columns: ColumnFit, rows: ColumnFit | None, joint: JointFit, useful: Usefulness | None, safety: Safety
) -> Verdict:
    """All findings, and the line that says the most important."""
    findings = [_columns(columns), *([_rows(rows)] if rows else []), _joint(joint)]
    findings += [_useful(useful)] if useful else []
    findings += [_copies(safety), _membership(safety)]
    judged = {finding.part: finding.judgement for finding in findings}
    return Verdict(worst([each for each in judged.values() if each]), _line(judged, joint), findings)


def _line(judged: dict[str, str], joint: JointFit) -> str:
    if POOR in (judged["copies"], judged["membership"]):
        what = "hold copies of real rows" if judged["copies"] == POOR else "give away which rows were trained on"
        return f"Do not share these rows: they {what}."
    dependence = _dependence(joint)
    if judged["columns"] == GOOD and dependence == "lost":
        return "The columns look right one by one, but the joint structure is lost."
    if next(each for each in joint.measures if each.metric == "two_sample_auc").judgement == POOR:
        return "These rows are easily told from real ones: do not rely on them."
    off = ["some columns are clearly off"] * (judged["columns"] == POOR)
    off += ["rows as a whole are clearly off"] * (judged.get("rows") == POOR)
    off += [f"the dependence between columns is {dependence}"] * (judged["joint"] == POOR)
    if off:
        return _sentence(f"{' and '.join(off)}: look closer before you rely on these rows")
    if judged.get("usefulness") == POOR:
        return "The rows look right, but models trained on them do badly on real rows."
    ending = (
        "and nothing suggests that they were copied" if judged["copies"] == GOOD else "but some are near to real rows"
    )
    if all((judged.get(part) or GOOD) == GOOD for part in ("columns", "rows", "joint", "usefulness")):
        return f"These rows are hard to tell from real ones, {ending}."
    return f"These rows are close to real ones, with differences that can be measured, {ending}."


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _dependence(joint: JointFit) -> str:
    """What became of the dependence between columns, where it is not as it was."""
    kept = next((each for each in joint.measures if each.metric == "dependence_kept"), None)
    if kept is not None and kept.judgement == POOR and kept.value < LOST:
        return "lost"
    return "weakened" if kept is not None and kept.value < 1 else "not that of real rows"


def _columns(fit: ColumnFit) -> Finding:
    count = len(fit.columns)
    named = {word: [f"“{fit.columns[j].name}”" for j in fit.order if fit.judgement[j] == word] for word in (POOR, FAIR)}
    poor, fair = len(named[POOR]), len(named[FAIR])
    far = fit.ratio if count >= ENOUGH else 0.0
    word = GOOD if poor + fair <= MANY * count and far <= 2 else FAIR
    word = POOR if poor > MANY * count or far > 4 else word
    ratio = (
        f"On average a column is {fit.ratio:.2f} times as far from the real one as two real samples are from each other"
    )
    if not poor + fair:
        return Finding("columns", word, f"No column stands out. {ratio}.")
    if word == GOOD:
        few = f"{poor + fair} of {count:,} columns stand{'s' * (poor + fair == 1)} out"
        return Finding("columns", word, f"{few}, as some do by chance where they are many. {ratio}.")
    said = [f"clearly off: {poor} of {count:,} columns ({_some(named[POOR])})"] * bool(poor)
    more = "more" if poor else f"of {count:,} columns"
    said += [f"off by more than chance: {fair} {more} ({_some(named[FAIR])})"] * bool(fair)
    return Finding("columns", word, f"{_sentence('; '.join(said))} {ratio}.")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + " …" * (len(names) > 3)


ROW_NAMES = {
    "zeros": "share of zeros",
    "missing": "share of missing values",
    "total": "total",
    "distinct": "distinct values",
}


def _rows(fit: ColumnFit) -> Finding:
    wrong = [ROW_NAMES[column.name] for column, word in zip(fit.columns, fit.judgement, strict=True) if word != GOOD]
    if not wrong:
        names = ", ".join(ROW_NAMES[column.name] for column in fit.columns)
        return Finding("rows", GOOD, f"Rows as a whole ({names}) are like real ones.")
    return Finding("rows", worst(fit.judgement), f"Rows as a whole differ in their {' and their '.join(wrong)}.")


def _joint(joint: JointFit) -> Finding:
    by_name = {measure.metric: measure for measure in joint.measures}
    auc, kept = by_name["two_sample_auc"], by_name.get("dependence_kept")
    error = by_name.get("pair_error")
    told = f"A classifier tells them from real rows with an AUC of {auc.value:.2f} (real rows among themselves: {auc.floor:.2f})"
    word = worst([each.judgement for each in (auc, kept, error) if each and each.judgement])
    if kept and kept.judgement == POOR and kept.value < LOST:
        return Finding(
            "joint", POOR, f"The joint structure is lost: {max(kept.value, 0):.0%} of the dependence is left. {told}."
        )
    if auc.judgement == POOR and joint.away:
        told += f", most by {', '.join(f'“{name}”' for name, _ in joint.away[:3])}"
    if kept and not np.isnan(kept.value):
        told += f"; they keep {kept.value:.0%} of the dependence between columns"
    return Finding("joint", word, f"{told}.")


def _useful(useful: Usefulness) -> Finding:
    measure, guess = useful.measures[:2]
    what = "right" if useful.task == "classification" else "of the variance explained"
    said = f"Predicting “{measure.column}” on {useful.tested_on}: {measure.value:.0%} {what} when trained on synthetic rows"
    also = f"{measure.floor:.0%} when trained on real ones, {guess.value:.0%} with the same answer for all"
    if not measure.judgement:
        also += (
            ". This cannot be judged: even real rows predict it no better, but for chance, than the same answer for all"
        )
    return Finding("usefulness", measure.judgement, f"{said}, {also}.")


def _copies(safety: Safety) -> Finding:
    by_name = {measure.metric: measure for measure in safety.measures}
    exact, near, median = (by_name[name] for name in ("exact_copies", "near_copies", "closest_record"))
    word = worst([each.judgement for each in (exact, near, median) if each.judgement])
    if exact.judgement == POOR:
        said = f"{exact.value:.1%} of the synthetic rows equal a real row; of real rows {exact.floor:.1%} equal another"
        return Finding("copies", POOR, f"Copies: {said}.")
    if near.judgement == POOR:
        said = f"{near.value:.1%} of the synthetic rows are as near to a real row as {near.floor:.1%} of real rows are"
        return Finding("copies", POOR, f"Near copies: {said} to another.")
    if word == GOOD:
        return Finding("copies", GOOD, "There are no more copies or near copies of real rows than among real rows.")
    said = f"their median distance to the closest real row is {median.value:.2f} times the usual one"
    return Finding("copies", word, f"Synthetic rows lie nearer to real rows than real rows do to each other: {said}.")


def _membership(safety: Safety) -> Finding:
    by_name = {measure.metric: measure for measure in safety.measures}
    if "membership_auc" not in by_name:
        said = "Without held-out rows it cannot be said whether training rows can be recognised"
        return Finding("membership", "", f"{said}: give rows that the model has not seen.")
    auc, found = by_name["membership_auc"], by_name["members_found"]
    word = worst([auc.judgement, found.judgement])
    said = f"an AUC of {auc.value:.3f} ± {auc.floor_sd:.3f}, where 0.5 is chance"
    if word == GOOD:
        return Finding(
            "membership", GOOD, f"Training rows are not recognised by their distance to synthetic ones: {said}."
        )
    more = f"; {found.value:.1%} of them are as near as {found.floor:.1%} of held-out rows"
    return Finding(
        "membership", word, f"Training rows are recognised by their distance to synthetic ones: {said}{more}."
    )
