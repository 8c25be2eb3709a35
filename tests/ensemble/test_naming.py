"""What P means: which class, which classifier, which instance."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.predictions import PredictionWarning

P, Y, TRUTH = make_predictions(120, 6, missing=0.1, labels=0.5, random_state=0)
WORDS = np.where(np.isnan(Y), None, np.where(Y == 1, "sick", "well"))
NAMES = [f"model {j}" for j in "abcdef"]
IDS = [f"patient {i}" for i in range(len(P))]
KINDS = [lambda **more: hs.CFEnsembleCV(ranks=(1, 2), **more), lambda **more: hs.CFEnsemble(max_iter=3, **more)]
pytestmark = pytest.mark.filterwarnings("ignore:.*no prediction at all")
both = pytest.mark.parametrize("make", KINDS, ids=["CFEnsembleCV", "CFEnsemble"])


def frame(ids=IDS):
    return pd.DataFrame(P, columns=NAMES, index=ids)


@both
def test_text_labels_are_refused_until_somebody_says_which_one_P_is_about(make):
    """P was taken for the probability of "well", the later one in the alphabet: AUC .911 became .156."""
    with pytest.raises(ValueError, match=r"of which of the two.*positive='sick' or positive='well'"):
        make().fit(P, WORDS)
    model = make(positive="sick").fit(P, WORDS)
    assert model.classes_.tolist() == ["sick", "well"]
    assert_array_equal(model.predict_proba(), make().fit(1 - P, 1 - Y).predict_proba())
    assert_allclose(model.predict_proba(P[:7]), model.predict_proba()[:7], atol=1e-5)
    hidden = np.isnan(Y)
    assert roc_auc_score(TRUTH[hidden], model.predict_proba()[hidden, 0]) > 0.8
    with pytest.raises(ValueError, match="positive='ill' is not a class of y"):
        make(positive="ill").fit(P, WORDS)


@both
def test_numbers_and_booleans_keep_the_larger_one(make):
    plain = make().fit(P, Y).predict_proba()
    flags = np.where(np.isnan(Y), None, Y == 1)
    assert_array_equal(make().fit(P, flags).predict_proba(), plain)
    assert_allclose(make(positive=0).fit(1 - P, Y).predict_proba(), plain, atol=1e-5)


@both
def test_an_axis_of_classes_needs_no_positive(make):
    cube = np.stack([P, 1 - P], axis=2)  # sick, well: in the order of predict_proba
    expected = make(positive="sick").fit(P, WORDS).predict_proba()
    assert_allclose(make().fit(cube, WORDS).predict_proba(), expected, atol=1e-5)


@both
def test_names_of_classes_are_followed_whatever_their_order(make):
    expected = make(positive="sick").fit(P, WORDS).predict_proba()
    parts = {name: pd.DataFrame({"well": 1 - P[:, j], "sick": P[:, j]}) for j, name in enumerate(NAMES)}
    model = make().fit(parts, WORDS)
    assert_allclose(model.predict_proba(), expected, atol=1e-5)
    assert model.feature_names_in_.tolist() == NAMES
    assert_allclose(model.predict_proba(dict(reversed(parts.items()))), expected, atol=1e-5)
    wide = pd.concat(parts, axis=1)
    assert_allclose(make().fit(wide, WORDS).predict_proba(), expected, atol=1e-5)
    with pytest.raises(ValueError, match="y has the label 'ill', but the classes are"):
        make().fit(parts, np.where(WORDS == "sick", "ill", WORDS))


@both
def test_labels_that_contradict_the_mean_are_said(make):
    with pytest.warns(PredictionWarning, match=r"the labels contradict the predictions.*pass positive=0"):
        make().fit(1 - P, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PredictionWarning)
        make(positive=0).fit(1 - P, Y)


@both
@pytest.mark.parametrize("kind", [pd.DataFrame, lambda P, columns: pl.DataFrame(P, schema=columns)])
def test_columns_are_known_by_name(make, kind):
    """Reversed columns changed answers by up to .99, and renamed ones were taken."""
    table = kind(P, columns=NAMES)
    model = make().fit(table, Y)
    assert model.feature_names_in_.tolist() == NAMES
    assert_array_equal(model.predict_proba(), make().fit(P, Y).predict_proba())
    assert_array_equal(model.predict_proba(kind(P[:, ::-1], columns=NAMES[::-1])), model.predict_proba(P))
    holes = P.copy()
    holes[:, 2] = np.nan
    with pytest.warns(PredictionWarning, match="no column 'model c'; its predictions count as missing"):
        found = model.predict_proba(kind(np.delete(P, 2, 1), columns=[n for n in NAMES if n != "model c"]))
    assert_array_equal(found, model.predict_proba(holes))
    with pytest.raises(ValueError, match=r"'modle c', which the model was not fitted with.*Did you mean 'model c'"):
        model.predict_proba(kind(P, columns=[n.replace("model c", "modle c") for n in NAMES]))


@both
def test_ids_go_in_and_come_out(make, tmp_path):
    model = make().fit(frame(), Y)
    assert model.instance_ids_.tolist() == IDS
    assert make().fit(P, Y, ids=IDS).instance_ids_.tolist() == IDS
    shown = model.to_frame()
    assert shown.index.tolist() == IDS
    assert_array_equal(shown["p_1"], model.predict_proba()[:, 1])
    assert model.to_frame(frame()[3:5]).index.tolist() == IDS[3:5]
    model.save(tmp_path / "m.safetensors")
    again = hs.load(tmp_path / "m.safetensors")
    assert again.instance_ids_.tolist() == IDS
    assert_array_equal(again.predict_proba(frame()[NAMES[::-1]]), model.predict_proba(P))
    with pytest.raises(ValueError, match="ids has 2 entries, but P has 120"):
        make().fit(P, Y, ids=["a", "b"])


@both
def test_labels_by_id(make):
    labels = {id: label for id, label in zip(IDS, Y, strict=True) if not np.isnan(label)}
    assert_array_equal(make().fit(frame(), labels).predict_proba(), make().fit(P, Y).predict_proba())
    with pytest.raises(KeyError, match="patient 1000"):
        make().fit(frame(), labels | {"patient 1000": 1})
    mixed = pd.Series(Y, index=IDS).sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"y has the index of P in another order; pass y\.loc\[P\.index\]"):
        make().fit(frame(), mixed)


@both
def test_an_index_that_repeats_is_said(make):
    with pytest.warns(PredictionWarning, match="repeats 'patient 0', so instances are called by their row numbers"):
        model = make().fit(frame(["patient 0", *IDS[:-1]]), Y)
    assert model.instance_ids_.tolist() == list(range(len(P)))


@both
def test_a_frame_with_text_names_the_column(make):
    with pytest.raises(TypeError, match="its column 'note' is not"):
        make().fit(frame().assign(note="x"), Y)


def test_query_speaks_of_ids_and_life_goes_on_by_name():
    model = KINDS[1]().fit(frame(), Y)
    plain = KINDS[1]().fit(P, Y)
    assert model.query(3).tolist() == [IDS[i] for i in plain.query(3)]
    model.partial_fit(y={model.query(1)[0]: 1})
    plain.partial_fit(y={int(plain.query(1)[0]): 1})
    assert_array_equal(model.predict_proba(), plain.predict_proba())
    model.partial_fit(pd.DataFrame(P[:2, ::-1], columns=NAMES[::-1], index=["new 1", "new 2"]))
    assert model.instance_ids_.tolist() == [*IDS, "new 1", "new 2"]
    with pytest.raises(ValueError, match="the instance 'new 1' was fitted already"):
        model.partial_fit(pd.DataFrame(P[:1], columns=NAMES, index=["new 1"]))
    model.add_classifiers(pd.DataFrame({"late": np.r_[P[:, 0], 0.5, 0.5]}))
    assert model.feature_names_in_.tolist() == [*NAMES, "late"]


@both
def test_a_series_of_some_labels_says_how_to_give_them_by_id(make):
    """It was told that lengths differ, not what to do."""
    some = pd.Series(TRUTH[:50], index=IDS[:50])
    with pytest.raises(ValueError, match=r"labels for 50 of the 120 instances of P; .* y\.to_dict\(\)"):
        make().fit(frame(), some)
    assert make().fit(frame(), some.to_dict()).predict_proba().shape == (120, 2)


def test_votes_given_to_the_single_model_are_refused_with_what_takes_them():
    """It was "could not convert string to float"."""
    votes = np.where(np.isnan(P), None, np.where(np.nan_to_num(P) > 0.5, "sick", "well"))
    with pytest.raises(ValueError, match=r"P holds text: votes, .* CFEnsembleCV\(\) takes votes"):
        hs.CFEnsemble(positive="sick").fit(votes, WORDS)


@both
def test_one_new_instance_may_lack_predictions_without_a_warning(make):
    """Each of its missing cells was called a classifier without any prediction."""
    model, new = make().fit(P, Y), P[:1].copy()
    new[0, :3], new[0, 3:] = np.nan, 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba(new)
