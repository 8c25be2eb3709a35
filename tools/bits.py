"""Did a change alter the bits of a fit? Hashes of fits and answers, through public names only.

    python tools/bits.py write hashes.json models/        # on the tree before the change; saves a model of each family
    python tools/bits.py compare hashes.json models/      # on the tree after it; the saved models must answer alike

Hashes hold for one machine and one compiled core: another instruction set rounds differently.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import halfstep as hs

USER = "Data scientist"  # of the sample of skills

# Spelt out, so that hashes do not change where a default does.
WALS = {"background": 0.05, "reg": 0.01, "max_iter": 6}
PLQMF = {"C": 1e-3, "rho": 0.5, "intercept": False}
CFENSEMBLE = {"rank": 3, "max_iter": 12, "rho": 0.5, "clip": 0.01, "on": "reconstructed", "shrinkage": "auto"}


def digest(*arrays: Any) -> str:
    """Types, shapes and bytes of arrays; of objects, what they print."""
    made = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        made.update(str((array.dtype.str if array.dtype.kind != "O" else "O", array.shape)).encode())
        made.update(repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes())
    return made.hexdigest()[:16]


def objectives(model: Any) -> np.ndarray:
    return np.array([record.get("objective", record.get("loss", 0.0)) for record in model.history_])


class Bits:
    """Hashes by name, and a fitted model of each family to be saved."""

    def __init__(self) -> None:
        self.hashes: dict[str, str] = {}
        self.models: dict[str, Any] = {}
        self.random = np.random.default_rng(0)  # drawn from in the order of the methods
        self.recommenders()
        self.ratings()
        self.ensembles()
        self.fusion_baselines()

    def wals(self, name: str, data: Any, **parameters: Any) -> hs.WALS:
        model = hs.WALS(random_state=0, **(WALS | parameters)).fit(data)
        self.hashes["wals " + name] = digest(model.user_factors_, model.item_factors_, objectives(model))
        return model

    def recommenders(self) -> None:
        skills = hs.datasets.load_sample_skills()
        R = sp.random_array((300, 200), density=0.05, random_state=self.random, format="csr", dtype=np.float32)
        for solver in ("exact", "cholesky", "dual", "cg", "subspace"):
            self.wals(solver, R, rank=20, solver=solver)
        for dtype in ("float32", "float64"):
            self.wals(dtype, skills, rank=16, dtype=dtype)
        for init in ("svd", "normal"):
            self.wals(init, R, rank=8, init=init)
        for scaling in ("constant", "count", 0.5):
            self.wals(f"scaling {scaling}", R, rank=8, reg_scaling=scaling)
        for loss in ("huber", "logistic", "absolute"):
            self.wals(f"loss {loss}", R, rank=6, loss=loss, max_iter=3)
        self.wals("background 0", R, rank=8, background=0.0, reg=0.1)
        self.wals("inits", R, rank=8, n_init=3)
        self.wals("threads", R, rank=8, n_threads=1)
        model = self.models["wals"] = self.wals("skills", skills, rank=16, background=0.05, reg=0.01)
        self.hashes["recommend"] = digest(*model.recommend(USER, n=5))
        self.hashes["recommend_for"] = digest(*model.recommend_for(["Python", "SQL"], n=5))
        self.hashes["explain"] = digest(*model.explain(USER, "SQL")[1:3])
        self.hashes["similar"] = digest(*model.similar_items("SQL"))
        model = hs.WALS(rank=8, random_state=0, **(WALS | {"max_iter": 4})).fit(R)
        self.hashes["transform"] = digest(model.transform(R[:20]))
        changed = R.tolil()
        changed[0, :5] = 1.0
        model.partial_fit(changed.tocsr()[:])
        self.hashes["partial_fit"] = digest(model.user_factors_, model.item_factors_)

    def ratings(self) -> None:
        pairs, y, _ = hs.datasets.make_ratings(120, 90, 3000, outliers=0.05, random_state=0)
        self.pairs = pairs

        def fit(y: Any, rank: int = 5, sample_weight: Any = None, **parameters: Any) -> hs.PLQMF:
            return hs.PLQMF(rank, random_state=0, **PLQMF, **parameters).fit(pairs, y, sample_weight)

        for loss in ("squared", "absolute", "huber", "epsilon_insensitive", "quantile", "poisson"):
            of = hs.losses.Quantile(0.9) if loss == "quantile" else loss
            model = fit(np.abs(y) if loss == "poisson" else y, loss=of, max_iter=5)
            factors = model.user_factors_, model.item_factors_, model.user_bias_, model.item_bias_
            self.hashes["plqmf " + loss] = digest(*factors, objectives(model), model.predict(pairs[:50]))
            if loss == "absolute":
                self.models["plqmf"] = model
        classes = np.where(y > np.median(y), "yes", "no")
        for loss in ("hinge", "squared_hinge", "smoothed_hinge", "logistic"):
            model = fit(classes, loss=loss, max_iter=4)
            answers = model.predict(pairs[:50])
            self.hashes["plqmf " + loss] = digest(model.user_factors_, model.item_factors_, answers)
        model = fit(y, 4, nonnegative=True, max_iter=4)
        self.hashes["plqmf nonnegative"] = digest(model.user_factors_, model.item_factors_)
        model = fit(y, 4, self.random.random(len(y)), biases=False, dtype="float64", max_iter=4)
        self.hashes["plqmf no biases"] = digest(model.user_factors_, model.item_factors_)
        self.hashes["plqmf transform"] = digest(model.transform(pairs[:200], y[:200])[1])

    def cf(self, name: str, P: Any, y: Any, fit: dict[str, Any] | None = None, **parameters: Any) -> hs.CFEnsemble:
        model = hs.CFEnsemble(**(CFENSEMBLE | parameters)).fit(P, y, **(fit or {}))
        factors = model.classifier_factors_, model.instance_factors_
        self.hashes["cf " + name] = digest(model.predict_proba(), *factors, model.novelty_, objectives(model))
        return model

    def ensembles(self) -> None:
        full, y, _ = hs.datasets.make_predictions(random_state=0)
        full, y = full[:600], y[:600]
        P = np.where(self.random.random(full.shape) < 0.3, np.nan, full)
        self.P, self.y = P, y
        self.models["cf"] = self.cf("exact", P, y)
        self.cf("als", P, y, solver="als")
        self.cf("bernoulli", P, y, loss="bernoulli", temperature=2.0)
        self.cf("bernoulli als", P, y, loss="bernoulli", solver="als", max_iter=5)
        self.cf("identity", P, y, link="identity")
        self.cf("dense", full, y)
        self.cf("rho0", P, y, rho=0.0)
        self.cf("rho1", P, y, rho=1.0)
        self.cf("route", P, y, route="auto")
        for aggregator in ("mean", "weighted", "attention"):
            self.cf("aggregator " + aggregator, P, y, aggregator=aggregator)
        for on in ("latent", "filled"):
            self.cf("on " + on, P, y, on=on)
        for name in ("certainty", "calibration", "agreement", "label_aware", "label_match", "reliability"):
            self.cf("confidence " + name, P, y, confidence=name)
        self.cf("groups", P, y, fit={"groups": np.arange(P.shape[1]) % 3})
        self.cf("features", P, y, fit={"features": self.random.normal(size=(len(P), 2))})
        self.cf("tasks", P, y, fit={"tasks": np.arange(len(P)) % 2})
        self.cf("no biases", P, y, biases=False)
        self.cf("random", P, y, init="random")
        self.cf("float64", P, y, dtype="float64")
        self.cf("no labels", P, None)
        model = self.models["cf"]
        self.hashes["cf new"] = digest(model.predict_proba(P[:40]))
        self.hashes["cf weights"] = digest(model.classifier_weights_)
        self.hashes["cf query"] = digest(model.query(5))
        self.hashes["cf novelty"] = digest(model.novelty(P[:9]))
        told = json.dumps({key: str(value) for key, value in model.diagnostics_.as_dict().items()})
        self.hashes["cf diagnostics"] = hashlib.sha256(told.encode()).hexdigest()[:16]
        model = self.cf("for add", P[:, :-2], y)
        model.add_classifiers(P[:, -2:])
        self.hashes["cf add_classifiers"] = digest(model.predict_proba())
        model = self.cf("for partial", P[:400], y[:400])
        model.partial_fit(P[400:], y[400:])
        self.hashes["cf partial_fit"] = digest(model.predict_proba())
        many = self.random.dirichlet(np.ones(4), size=(300, 8))
        known = np.where(self.random.random(300) < 0.4, many.mean(1).argmax(1).astype(float), np.nan)
        self.cf("classes", many, known, max_iter=5)
        averaged = self.models["cv"] = hs.CFEnsembleCV(random_state=0).fit(P, y)
        self.hashes["cv"] = digest(averaged.predict_proba(), averaged.predict_proba(P[:30]), averaged.uncertainty())
        self.hashes["cv classes"] = digest(hs.CFEnsembleCV(random_state=0).fit(many, known).predict_proba())

    def fusion_baselines(self) -> None:
        for name in sorted(set(hs.baselines.__all__) - {"ItemKNN", "Popularity"}):
            kind = getattr(hs.baselines, name)
            if isinstance(kind, type):
                self.hashes["baseline " + name] = digest(kind().fit(self.P, self.y).predict_proba())

    def saved(self, folder: Path) -> dict[str, str]:
        """What the models that stand in `folder` answer."""
        wals, plqmf, cf, cv = (hs.load(folder / f"{name}.safetensors") for name in ("wals", "plqmf", "cf", "cv"))
        return {
            "loaded wals": digest(wals.user_factors_, *wals.recommend(USER, n=5)),
            "loaded plqmf": digest(plqmf.predict(self.pairs[:50])),
            "loaded cf": digest(cf.predict_proba(), cf.predict_proba(self.P[:40])),
            "loaded cv": digest(cv.predict_proba(), cv.predict_proba(self.P[:30])),
        }


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    file, folder = Path(sys.argv[2]), Path(sys.argv[3])
    warnings.simplefilter("ignore")
    bits = Bits()
    if sys.argv[1] == "write":
        folder.mkdir(parents=True, exist_ok=True)
        for name, model in bits.models.items():
            model.save(folder / f"{name}.safetensors")
        hashes = bits.hashes | bits.saved(folder)
        file.write_text(json.dumps(hashes, indent=1))
        print(f"{len(hashes)} hashes written")
        return
    before, now = json.loads(file.read_text()), bits.hashes | bits.saved(folder)
    different = [name for name in before if now.get(name) != before[name]]
    print(f"{len(before) - len(different)} of {len(before)} hashes equal", *different, sep="\n  ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
