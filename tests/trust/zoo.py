"""One small fitted model of every kind that can be saved, and what is asked of each."""

from __future__ import annotations

import hashlib
import json
import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import halfstep as hs
from halfstep import baselines
from halfstep.data import container

RATINGS = hs.datasets.make_ratings(14, 10, 60, random_state=0)[:2]
TABLE = np.random.default_rng(0).poisson(0.5, (12, 9)).astype(np.float64)
FRAME = pd.DataFrame([(f"u{i}", f"i{j}", TABLE[i, j]) for i, j in zip(*np.nonzero(TABLE), strict=True)])
FRAME.columns = ["user", "item", "weight"]
ITEMS = pd.DataFrame({"item": [f"i{j}" for j in range(9)], "colour": list("rgbrgbrgb"), "size": np.arange(9.0)})
CRAFTS = ["tram driver", "tram mechanic", "train driver", "train mechanic"]
TELLING = [  # every kind of column, and words that both sides have
    hs.Features.of({f"{name}{k}": row(k) for k in range(n)}, side=side, text=["title"])
    for side, name, n, row in (
        ("user", "u", 12, lambda k: {"title": CRAFTS[k % 4], "age": 20.0 + k, "group": "ab"[k % 2]}),
        ("item", "i", 9, lambda k: {"title": CRAFTS[k % 3], "new": k < 4, "genres": ["x", "yz"[k % 2]]}),
    )
]
RATED = [  # of the users and items of RATINGS
    hs.Features.of({k: {"title": CRAFTS[k % 4], "age": 20.0 + k} for k in range(n)}, side=side, text=["title"])
    for side, n in (("user", 14), ("item", 10))
]
P, Y, _ = hs.datasets.make_predictions(40, 5, random_state=0)
Y = np.where(np.arange(40) < 24, Y, -1)
P3 = np.random.default_rng(0).dirichlet(np.ones(3), (40, 5))
Y3 = np.where(np.arange(40) < 24, P3.mean(axis=1).argmax(axis=1), -1)
TWO = (RATINGS[1] > np.median(RATINGS[1])).astype(int)
LEVELS = np.round(RATINGS[1])
THIRDS = hs.losses.Quantiles((1 / 3, 2 / 3))
small = {"rank": 2, "random_state": 0}


def told(sides):
    return dict(zip(("user_features", "item_features"), sides, strict=True))


ZOO = {
    "WALS": lambda: hs.WALS(**small, max_iter=3).fit(FRAME),
    "WALS-plain": lambda: hs.WALS(**small, max_iter=3, dtype="float64", weighting="bm25").fit(TABLE),
    "WALS-features": lambda: hs.WALS(**small, max_iter=3, feature_reg=1.0).fit(FRAME, item_features=ITEMS),
    "WALS-words": lambda: hs.WALS(**small, max_iter=3, feature_reg=1.0, common_words=0.5).fit(FRAME, **told(TELLING)),
    "WALS-kindred": lambda: hs.WALS(**small, max_iter=3, feature_reg=1.0, kindred=(0.5, 0.5)).fit(
        FRAME, **told(TELLING)
    ),
    "ItemGraph": lambda: hs.ItemGraph().fit(FRAME),
    "EASE": lambda: hs.EASE().fit(FRAME),
    "ItemKNN": lambda: baselines.ItemKNN().fit(TABLE),
    "Popularity": lambda: baselines.Popularity().fit(FRAME),
    "Blend": lambda: hs.Blend([hs.WALS(**small, max_iter=2), hs.ItemGraph(), hs.EASE()], [1, 1, 1]).fit(FRAME),
    "PLQMF": lambda: hs.PLQMF(**small, loss="huber", max_iter=3).fit(*RATINGS),
    "PLQMF-levels": lambda: hs.PLQMF(**small, loss="ordinal", max_iter=3).fit(RATINGS[0], LEVELS),
    "PLQMF-classes": lambda: hs.PLQMF(**small, loss="logistic", max_iter=3).fit(RATINGS[0], TWO),
    "PLQMF-quantiles": lambda: hs.PLQMF(**small, loss=THIRDS, max_iter=3).fit(*RATINGS),
    "PLQMF-features": lambda: hs.PLQMF(**small, max_iter=3).fit(*RATINGS, **told(RATED)),
    "BayesMF": lambda: hs.BayesMF(**small, n_sweeps=6, keep=2).fit(*RATINGS),
    "BayesMF-classes": lambda: hs.BayesMF(**small, n_sweeps=6, keep=2, likelihood="probit").fit(RATINGS[0], TWO),
    "BayesMF-levels": lambda: hs.BayesMF(**small, n_sweeps=6, keep=2, likelihood="ordinal").fit(RATINGS[0], LEVELS),
    "BayesMF-features": lambda: hs.BayesMF(**small, n_sweeps=6, keep=2).fit(*RATINGS, **told(RATED)),
    "Constant": lambda: baselines.Constant().fit(*RATINGS),
    "Biases": lambda: baselines.Biases().fit(*RATINGS),
    "CFEnsemble": lambda: hs.CFEnsemble(max_iter=5).fit(P, Y),
    "CFEnsemble-classes": lambda: hs.CFEnsemble(max_iter=5, aggregator="attention").fit(P3, Y3),
    "CFEnsembleCV": lambda: hs.CFEnsembleCV(ranks=(1,), links=("logit",)).fit(P, Y),
    "CFEnsembleCV-classes": lambda: hs.CFEnsembleCV(ranks=(1,)).fit(P3, Y3),
}


@cache
def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ZOO[name]()


def questions(name):
    """What a model of that kind is asked: functions of the model that give arrays of numbers."""
    if name.startswith("CFEnsemble"):
        given = P3 if name.endswith("classes") else P
        return [
            lambda m: m.predict_proba(),
            lambda m: m.predict_proba(given[:4]),
            lambda m: m.novelty(given[:4]),
        ]
    if name.startswith(("PLQMF", "BayesMF", "Constant", "Biases")):
        pairs = RATINGS[0][:7]
        asked = [lambda m: np.asarray(m.predict(pairs), np.float64)]
        if name.endswith("features"):
            new = {"user_features": {99: {"title": "train driver", "age": 31.0}}}
            asked.append(lambda m: m.predict(np.array([(99, 3), (99, 5)]), **new))
        if name.endswith("quantiles"):
            asked.append(lambda m: m.predict_quantiles(pairs))
        if name.startswith(("PLQMF", "BayesMF")):
            asked.append(lambda m: m.recommend(m.user_ids_[:2].tolist(), 3).scores)
        return asked
    asked = [
        lambda m: m.recommend(m.user_ids_[:3].tolist(), 4).scores,
        lambda m: m.recommend_for(m.item_ids_[:2].tolist(), 3).scores,
        lambda m: m.similar_items(m.item_ids_[0], 3).scores,
    ]
    if name.endswith(("words", "kindred")):
        someone = {"title": "a train driver", "age": 31.0, "group": "b"}
        asked.append(lambda m: m.recommend_for(features=someone, n=3).scores)
        asked.append(lambda m: m.explain(item=m.item_ids_[1], features=someone).contributions)
    return asked


def answers(name, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(ask(model)) for ask in questions(name)]


def parts_of(path: Path):
    """The document and the tensors of a model file, without its seal."""
    found = container.read(path, mapped=False)
    found.tensors.pop("seal", None)
    return json.loads(found.texts["halfstep"]), found.tensors


def put_together(path: Path, document, tensors) -> None:
    """A file of any document and tensors, all its checksums right: what somebody who knows the format can write."""
    table = {n: [t.dtype.newbyteorder("<").str, list(t.shape), zlib.crc32(t.tobytes())] for n, t in tensors.items()}
    text = json.dumps(document | {"tensors": table})
    seal = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
    tensors = {n: np.ascontiguousarray(t) if t.ndim else t for n, t in tensors.items()}
    with path.open("wb") as file:
        container.write(file, {"halfstep": text}, tensors | {"seal": seal}, last="seal")
