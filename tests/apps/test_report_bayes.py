"""The chapter about a BayesMF: intervals with what they cover, what it does not believe, with and without ratings."""

import numpy as np
import pytest

pytest.importorskip("jinja2")

from halfstep import BayesMF
from halfstep.apps.report import chapter, write_report
from halfstep.data.datasets import make_reviews

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def fitted():
    reviews = make_reviews(60, 40, 900, random_state=0)
    data = reviews.ratings
    return BayesMF(rank=2, n_sweeps=30, random_state=0, n_threads=1).fit(data.pairs[:700], data.y[:700]), data


def titles(made):
    return [section.title for section in made.sections]


def test_with_ratings_it_shows_what_intervals_cover(fitted, tmp_path):
    model, data = fitted
    pairs, y = data.pairs[700:], data.y[700:]
    text = write_report(model, tmp_path / "r.html", pairs=pairs, y=y).read_text()
    low, high = model.predict_interval(pairs, 0.9).T
    assert f"{np.mean((low <= y) & (y <= high)):.1%} of the ratings lie within their 90% interval" in text
    assert "What it does not believe" in text
    missed = np.abs(y - model.predict(pairs)) / (high - low)
    assert str(pairs[np.argmax(missed), 1]) in text


def test_without_ratings_it_still_says_how_sure_it_is(fitted):
    shown = titles(chapter(fitted[0]))
    assert shown == ["How it errs", "The data", "How sure it is", "How the sampler went", "What was fitted"]


def test_classes_have_a_chapter_too(fitted):
    data = fitted[1]
    model = BayesMF(rank=2, likelihood="probit", n_sweeps=8, random_state=0).fit(data.pairs, data.y > 3)
    assert titles(chapter(model))[-2:] == ["How the sampler went", "What was fitted"]
