"""The input checker: what it returns, and every message it raises."""

import numpy as np
import pytest

from halfstep.ensemble.predictions import PredictionWarning, check_predictions, expit, logit

P = np.array([[0.1, 0.9], [np.nan, 0.4], [0.5, 0.5]])


def test_cells_and_labels_come_back_coded():
    data = check_predictions(P, [1, np.nan, 0])
    assert data.observed.tolist() == [[True, True], [False, True], [True, True]]
    assert data.y.tolist() == [1, -1, 0]
    assert data.classes.tolist() == [0, 1]
    assert data.labelled.tolist() == [True, False, True]
    assert data.P.dtype == np.float64
    assert data.logits()[1, 0] == 0.0


@pytest.mark.parametrize(
    "y",
    [
        np.array([1.0, np.nan, 0.0]),
        np.array([1, -1, 0]),
        np.array([1, None, 0], dtype=object),
        [1, None, 0],
        [True, None, False],
        [1, float("nan"), 0],
    ],
)
def test_every_way_to_write_unlabelled(y):
    assert check_predictions(P, y).y.tolist() == [1, -1, 0]


def test_pandas_labels_with_na():
    pd = pytest.importorskip("pandas")
    assert check_predictions(P, pd.Series([1, pd.NA, 0], dtype="Int64")).y.tolist() == [1, -1, 0]
    data = check_predictions(pd.DataFrame(P), pd.Series(["spam", None, "ham"]))
    assert data.y.tolist() == [1, -1, 0]
    assert data.classes.tolist() == ["ham", "spam"]


def test_a_list_of_text_and_nan_keeps_nan_unlabelled():
    data = check_predictions(P, ["spam", float("nan"), "ham"])
    assert data.classes.tolist() == ["ham", "spam"]
    assert data.y.tolist() == [1, -1, 0]


def test_no_labels_at_all():
    assert check_predictions(P).classes.tolist() == [0, 1]
    assert check_predictions(P, [np.nan] * 3).y.tolist() == [-1, -1, -1]


def test_one_of_zero_and_one_still_means_two_classes():
    data = check_predictions(P, [1, -1, 1])
    assert data.classes.tolist() == [0, 1]
    assert data.y.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("cells", "y", "message"),
    [
        ([[0.1, 1.5]], None, r"P\[0, 1\] = 1.5 is not a probability in \[0, 1\] \(one of 1 such cells\)"),
        ([[0.1, -0.2], [np.inf, 0.3]], None, r"P\[0, 1\] = -0.2 .*one of 2"),
        ([0.1, 0.2], None, r"P has shape \(2,\); it must be two-dimensional"),
        (np.zeros((0, 3)), None, "not empty"),
        (P, [0, 1], r"y has 2 labels, but P has 3 instances .* P looks transposed, pass P.T"),
        (P, [0, 1, 1, 0], r"y has 4 labels, but P has 3 instances \(rows\) and 2 classifiers"),
        (P, [[0], [1], [0]], r"y has shape \(3, 1\); it must be one-dimensional"),
        (P, ["a", "b", "c"], "y has 3 classes, .*; at most 2 are supported"),
        (P, ["a", "a", None], r"only the class \['a'\]"),
        (P, [-1, 2, 2], "where -1 is a class of yours, write 0 and 1"),
    ],
)
def test_bad_input_says_what_to_do(cells, y, message):
    with pytest.raises(ValueError, match=message):
        check_predictions(cells, y)


def test_text_cells_are_a_type_error():
    with pytest.raises(TypeError, match="P must be numbers, instances x classifiers"):
        check_predictions([["a", "b"]])


def test_wrong_number_of_classifiers():
    with pytest.raises(ValueError, match=r"P has 2 classifiers .* fitted with 3. It looks transposed: pass P.T"):
        check_predictions(P, n_classifiers=3)
    with pytest.raises(ValueError, match=r"P has 2 classifiers .* fitted with 7\.$"):
        check_predictions(P, n_classifiers=7)


def test_empty_rows_and_columns_are_reported():
    cells = np.array([[np.nan, np.nan, np.nan], [0.3, np.nan, 0.2]])
    with pytest.warns(PredictionWarning) as caught:
        data = check_predictions(cells)
    texts = [str(w.message) for w in caught]
    assert any("1 of 2: no prediction at all for instance (row) 0;" in t for t in texts)
    assert any("1 of 3: no prediction at all for classifier (column) 1;" in t for t in texts)
    assert data.empty_rows.tolist() == [0]
    assert data.empty_columns.tolist() == [1]


def test_more_classes_on_request():
    assert check_predictions(P, ["a", "b", "c"], max_classes=3).y.tolist() == [0, 1, 2]


def test_require_labels():
    with pytest.raises(ValueError, match=r"Thing learns from labels of every class, but .*0: 0, 1: 2"):
        check_predictions(P, [1, -1, 1]).require_labels("Thing")


def test_logit_clips_and_inverts():
    p = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
    np.testing.assert_allclose(expit(logit(p, 1e-3)), [1e-3, 0.2, 0.5, 0.8, 1 - 1e-3])
    with pytest.raises(ValueError, match=r"clip=0.5 must lie strictly between 0 and 0.5"):
        logit(p, 0.5)
