"""CFEnsemble in files: what is kept, and what is refused with advice."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import halfstep
from halfstep import CFEnsemble, weights
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.aggregators import MeanAggregator

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")


@pytest.fixture(scope="module")
def data():
    return make_predictions(400, 12, missing=0.3, labels=0.3, random_state=3)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"aggregator": "attention"}, {"confidence": weights.LabelAware("agreement", 2.0)}, {"route": "auto"}],
)
def test_save_and_load(data, tmp_path, parameters):
    P, y, truth = data
    model = CFEnsemble(**parameters, max_iter=5).fit(
        P, y, features=truth, tasks=np.arange(400) % 2, groups=np.arange(12) % 2
    )
    model.save(tmp_path / "fused.safetensors")
    back = halfstep.load(tmp_path / "fused.safetensors")
    assert np.array_equal(back.predict_proba(), model.predict_proba())
    fresh = {"features": truth[:20], "tasks": np.zeros(20, int)}
    assert np.array_equal(back.predict_proba(P[:20], **fresh), model.predict_proba(P[:20], **fresh))
    assert back.diagnostics_.as_dict() == model.diagnostics_.as_dict()
    back.partial_fit(y=np.where(np.arange(400) < 9, truth, -1))


@pytest.mark.parametrize("aggregator", [GaussianNB(), MeanAggregator()])
def test_an_aggregator_without_a_name_cannot_be_saved(data, tmp_path, aggregator):
    P, y, _ = data
    with pytest.raises(ValueError, match="is an object, which a model file cannot hold; fit with one of"):
        CFEnsemble(aggregator=aggregator).fit(P, y).save(tmp_path / "x.safetensors")


@dataclass(frozen=True)
class FlooredCertainty(weights.Certainty):
    """A kind of a built-in confidence, as a user would write it."""

    floor: float = 0.2


class Nameless(weights.CellWeights):
    def _weights(self, P, observed, y):
        return np.ones_like(P)


def test_a_confidence_that_is_a_kind_of_another_one_is_saved_and_loaded(data, tmp_path):
    P, y, _ = data
    model = CFEnsemble(confidence=FlooredCertainty(0.3)).fit(P, y)
    model.save(tmp_path / "x.safetensors")
    back = halfstep.load(tmp_path / "x.safetensors")
    assert back.confidence == FlooredCertainty(0.3)
    assert np.array_equal(back.predict_proba(P[:20]), model.predict_proba(P[:20]))


def test_a_confidence_that_hides_its_parameters_is_refused_by_a_file_with_advice(data, tmp_path):
    P, y, _ = data
    with pytest.raises(ValueError, match="make Nameless a dataclass"):
        CFEnsemble(confidence=Nameless()).fit(P, y).save(tmp_path / "x.safetensors")
