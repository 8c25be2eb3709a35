"""Estimators keep scikit-learn's protocol without being its classes, and without importing it before it asks."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from halfstep.core.estimators import Classifier, Estimator, Transformer, available_if

WITHOUT = """
import sys, numpy as np, scipy.sparse as sp, halfstep as hs
R = sp.random(30, 20, 0.3, random_state=0, format="csr")
model = hs.WALS(3, max_iter=2, random_state=0).fit(R)
model.recommend(np.arange(30), 3)
model.save(sys.argv[1])
hs.load(sys.argv[1]).recommend(0)
pairs = np.column_stack([np.arange(60) % 9, np.arange(60) % 7])
hs.PLQMF(rank=2, max_iter=2).fit(pairs, np.arange(60.0)).predict(pairs)
theirs = {"sklearn", "scipy.linalg", "scipy.stats", "scipy.optimize", "pandas", "pyarrow", "polars", "plotly"}
brought = theirs & sys.modules.keys()
assert not brought, brought
"""


def test_fits_rankings_and_files_need_no_scikit_learn(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path / "m.safetensors")], check=True)


class Ours(Transformer):
    def __init__(self, inner=None, power=2):
        self.inner, self.power = inner, power

    def fit(self, X, y=None, *, sample_weight=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.asarray(X) ** self.power

    def get_feature_names_out(self, input_features=None):
        return np.array(["a", "b"], object)


class Theirs(TransformerMixin, BaseEstimator):
    __init__, fit, transform = Ours.__init__, Ours.fit, Ours.transform


def test_parameters_go_as_they_do_in_scikit_learn():
    ours, theirs = Ours(Ours(power=5)), Theirs(Theirs(power=5))
    assert list(ours.get_params(deep=False)) == list(theirs.get_params(deep=False))
    assert ours.get_params().keys() == theirs.get_params().keys()
    assert ours.get_params()["inner__power"] == 5
    for model in (ours, theirs):
        assert model.set_params(power=7, inner__power=3) is model
        assert (model.power, model.inner.power) == (7, 3)
        with pytest.raises(ValueError, match="Invalid parameter 'pover' for estimator"):
            model.set_params(pover=1)
    assert ours.get_params() == clone(ours).set_params(inner=ours.inner).get_params()


def test_it_is_shown_as_scikit_learn_shows_it():
    assert repr(Ours(power=3)) == repr(Theirs(power=3)).replace("Theirs", "Ours")
    assert repr(make_pipeline(Ours(power=3))) == "Pipeline(steps=[('ours', Ours(power=3))])"
    assert "Ours" in Ours()._repr_html_()


def test_tags_say_what_it_is():
    assert get_tags(Ours()) == get_tags(Theirs())

    class Told(Classifier):
        def predict(self, X):
            return np.asarray(X)

    class Mixed(ClassifierMixin, BaseEstimator):
        predict = Told.predict

    assert is_classifier(Told())
    assert get_tags(Told()) == get_tags(Mixed())
    assert Told().score([1, 2, 3], [1, 2, 2], [1, 1, 2]) == Mixed().score([1, 2, 3], [1, 2, 2], [1, 1, 2]) == 0.5


def test_metadata_is_routed_to_what_asks_for_it():
    with sklearn.config_context(enable_metadata_routing=True):
        asked = Ours().set_fit_request(sample_weight=True)
        assert type(asked) is Ours
        assert clone(asked).get_metadata_routing().fit.requests == {"sample_weight": True}
        assert Ours().get_metadata_routing().fit.requests == {"sample_weight": None}
    with pytest.raises(RuntimeError, match="only available when metadata routing is enabled"):
        Ours().set_fit_request(sample_weight=True)
    assert not hasattr(Ours(), "set_predict_request")


def test_set_output_is_kept_by_clones_and_refuses_what_is_no_frame():
    model = Ours().set_output(transform="pandas")
    assert clone(model)._sklearn_output_config == {"transform": "pandas"}
    assert model.set_output()._sklearn_output_config == {"transform": "pandas"}
    with pytest.raises(ValueError, match="transform='panda'"):
        model.set_output(transform="panda")


class Sometimes(Estimator):
    def __init__(self, able=True):
        self.able = able

    @available_if(lambda model: model.able)
    def answer(self, more=0):
        """What there is."""
        return 42 + more


def test_a_method_is_there_where_its_condition_holds():
    assert Sometimes().answer(1) == 43
    assert Sometimes.answer(Sometimes(), more=2) == 44
    assert Sometimes.answer.__doc__ == "What there is."
    assert "answer" in dir(Sometimes())
    assert "answer" not in dir(Sometimes(False))
    with pytest.raises(AttributeError, match="This 'Sometimes' has no attribute 'answer'"):
        Sometimes(False).answer()
    with pytest.raises(AttributeError, match="has no attribute 'answer'"):
        Sometimes.answer(Sometimes(False))


def test_frames_of_factors_keep_the_index_of_a_frame_of_weights():
    import halfstep as hs

    R = pd.DataFrame(np.eye(6)[:, :4], index=list("abcdef"))
    model = hs.WALS(2, max_iter=2, random_state=0).fit(R.to_numpy())
    with sklearn.config_context(transform_output="pandas"):
        found = model.transform(R.to_numpy())
    assert list(found.columns) == ["wals0", "wals1"]
