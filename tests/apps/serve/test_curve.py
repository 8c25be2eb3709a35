"""What labels bring: log loss by the number of labels, and what ten more are expected to do."""

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from halfstep import CFEnsemble, CFEnsembleCV
from halfstep.apps.serve import create_app
from halfstep.apps.serve.curve import _through, learning_curve
from halfstep.data.datasets import make_predictions

P, _, TRUTH = make_predictions(150, 6, missing=0.05, labels=0.0, random_state=0)
TOLD = np.where(np.arange(150) < 60, np.where(TRUTH == 1, "spam", "ham"), None).astype(object)
KINDS = {
    "single": CFEnsemble(positive="spam", random_state=0),
    "average": CFEnsembleCV(ranks=(1,), positive="spam", random_state=0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_is_measured_on_hidden_labels_and_goes_on_by_ten(kind, tmp_path):
    path = tmp_path / "model.safetensors"
    KINDS[kind].fit(P, TOLD).save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        found = client.get("/curve").json()
        assert client.get("/curve").json() == found
    sizes = [point["labels"] for point in found["points"]]
    assert sizes == sorted(sizes)
    assert sizes[-1] < found["labelled"] == 60
    assert all(0 < point["log_loss"] < 1.5 for point in found["points"])
    assert found["now"] == pytest.approx(found["level"] + found["slope"] / 60, abs=1e-5)
    assert found["then"] == pytest.approx(found["level"] + found["slope"] / 70, abs=1e-5)
    assert found["then"] <= found["now"]


def test_the_curve_sees_no_hidden_label():
    """Labels are noise: were those it is judged on seen, the loss would be below that of a coin."""
    model = KINDS["average"].fit(P, TOLD)
    votes, codes = np.asarray(model.fitted_.opinions), model.fitted_.labels
    noise = np.where(codes >= 0, np.random.default_rng(0).integers(0, 2, len(codes)), -1)
    found = learning_curve(model, votes, noise)
    assert min(point["log_loss"] for point in found["points"]) > 0.6  # log 2 is .69


@pytest.mark.heavy
def test_three_classes_have_a_curve_too():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 90)
    scores = 1.5 * np.eye(3)[truth][:, None, :] + rng.normal(size=(90, 4, 3))
    P3 = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    model = CFEnsembleCV(ranks=(1,), random_state=0).fit(P3, np.where(np.arange(90) < 45, truth, -1))
    found = learning_curve(model, np.asarray(model.fitted_.opinions), model.fitted_.labels)
    assert found["points"][-1]["log_loss"] < np.log(3)


def test_few_labels_have_no_curve(tmp_path):
    path = tmp_path / "model.safetensors"
    CFEnsemble(positive="spam", random_state=0).fit(P, np.where(np.arange(150) < 8, TOLD, None)).save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        answer = client.get("/curve")
    assert answer.status_code == 409
    assert "at least 6 labels of every class" in answer.json()["error"]


def test_the_law_of_the_curve_is_found_and_never_rises():
    sizes = np.array([5, 10, 20, 40])
    assert _through(sizes, 0.3 + 2 / sizes, np.ones(4)) == pytest.approx((0.3, 2))
    level, slope = _through(sizes, 0.3 - 1 / sizes, np.ones(4))
    assert slope == 0
    assert level == pytest.approx((0.3 - 1 / sizes).mean())
