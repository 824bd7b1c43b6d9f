"""Writes the synthetic reference of the metrics tests: `python metrics_golden.py`.

AUROC and ROC curve are scikit-learn's. DeLong's variance is the textbook form of the 1988 paper,
from the matrix of all pairs, so it shares no step with the ranks of the Rust code.
Made with scikit-learn 1.9.1 and NumPy 2.4.6.
"""

from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

ROWS = 300
NORMAL_QUANTILE = 1.959963984540054
DATA = Path(__file__).resolve().parent.parent / "data"


def synthetic_labels():
    """Name, scores (float32) and targets (1, 0, or -1 for unknown) of each label."""
    random = np.random.default_rng(14)

    def probabilities(targets, shift):
        logits = random.normal(size=ROWS) + shift * targets
        return 1 / (1 + np.exp(-logits))

    def targets(share):
        return (random.random(ROWS) < share).astype(int)

    def exactly(count):
        return (random.permutation(ROWS) < count).astype(int)

    truth = targets(0.3)
    yield "smooth", probabilities(truth, 1.2), truth

    truth = targets(0.3)
    yield "ties", probabilities(truth, 1.0).round(1), truth

    truth = targets(0.4)
    signed = (random.normal(size=ROWS) + truth).round(0)
    signed[signed == 0] = random.choice([0.0, -0.0], size=(signed == 0).sum())
    yield "signed", signed, truth

    truth = targets(0.3)
    scores = probabilities(truth, 1.0).round(2)
    yield "masked", scores, np.where(random.random(ROWS) < 0.35, -1, truth)

    truth = exactly(4)
    yield "rare", probabilities(truth, 1.5).round(2), truth

    truth = exactly(1)
    yield "single positive", probabilities(truth, 1.0), truth

    truth = targets(0.5)
    yield "separated", 0.5 * truth + 0.4 * random.random(ROWS), truth

    yield "constant", np.full(ROWS, 0.5), targets(0.2)
    yield "all negative", random.random(ROWS), np.zeros(ROWS, dtype=int)
    yield "all positive", random.random(ROWS), np.where(random.random(ROWS) < 0.5, -1, 1)


def delong(scores, truth):
    """Standard error and 95 % interval, cut off at 0 and 1; blanks with one row of a class."""
    positives = scores[truth == 1].astype(np.float64)
    negatives = scores[truth == 0].astype(np.float64)
    if min(len(positives), len(negatives)) < 2:
        return "", "", ""
    pairs = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
    variance = pairs.mean(axis=1).var(ddof=1) / len(positives)
    variance += pairs.mean(axis=0).var(ddof=1) / len(negatives)
    error = np.sqrt(variance)
    area = pairs.mean()
    return (
        float(error),
        float(max(area - NORMAL_QUANTILE * error, 0)),
        float(min(area + NORMAL_QUANTILE * error, 1)),
    )


def main():
    columns = []
    expected = ["label,positives,negatives,unknown,auroc,standard_error,ci_low,ci_high"]
    curves = ["label,false_positive_rate,true_positive_rate,threshold"]
    for label, scores, targets in synthetic_labels():
        scores = scores.astype(np.float32)
        columns.append((label, scores, targets))

        known = targets >= 0
        truth = targets[known]
        area, error, low, high = "", "", "", ""
        if 0 < truth.sum() < len(truth):
            area = float(roc_auc_score(truth, scores[known]))
            error, low, high = delong(scores[known], truth)
            if label in ("ties", "signed", "masked", "rare", "constant"):
                points = zip(*roc_curve(truth, scores[known], drop_intermediate=False))
                curves += [f"{label},{x!s},{y!s},{threshold!s}" for x, y, threshold in points]
        counts = (truth == 1).sum(), (truth == 0).sum(), ROWS - len(truth)
        expected.append(",".join(map(str, [label, *counts, area, error, low, high])))

    rows = [",".join(f"{label} score,{label} target" for label, _, _ in columns)]
    for row in range(ROWS):
        rows.append(",".join(f"{scores[row]!s},{'' if targets[row] < 0 else targets[row]}"
                             for _, scores, targets in columns))

    (DATA / "metrics_golden.csv").write_text("\n".join(rows) + "\n")
    (DATA / "metrics_golden_expected.csv").write_text("\n".join(expected) + "\n")
    (DATA / "metrics_golden_roc.csv").write_text("\n".join(curves) + "\n")


if __name__ == "__main__":
    main()
