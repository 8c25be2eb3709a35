"""The report of an averaged ensemble, fresh and loaded from its file."""

from dataclasses import replace

import numpy as np
from fastapi.testclient import TestClient

import halfstep as hs
from halfstep.apps.report import write_report
from halfstep.serve import create_app


def test_members_and_doubtful_instances_are_shown(tmp_path):
    P, y, _ = hs.datasets.make_predictions(200, 8, missing=0.2, labels=0.2, random_state=0)
    model = hs.CFEnsembleCV(ranks=(1, 2), random_state=0).fit(P, y)
    page = write_report(model, tmp_path / "fresh.html").read_text()
    assert all(member["name"] in page for member in model.members_)
    assert "The most doubtful instances" in page
    model.save(tmp_path / "m.safetensors")
    again = write_report(hs.load(tmp_path / "m.safetensors"), tmp_path / "loaded.html", P=P).read_text()
    assert "The most doubtful instances" in again
    for words in ("What to label next", "Weights of the classifiers", "Instances by difficulty", "nearer to what is"):
        assert words in page
        assert words in again


def test_a_model_whose_instances_are_elsewhere_is_reported_and_served(tmp_path):
    """Fitted at many sites it has none; fitted on a cluster it has the labelled ones, and they stay there."""
    P, y, _ = hs.datasets.make_predictions(400, 6, labels=0.6, random_state=0)
    sites, cluster = hs.CFEnsembleCV(ranks=(1,)), hs.CFEnsembleCV(ranks=(1,)).fit(P, y)
    while not sites.merge([sites.accumulate(P, y)]):
        pass
    columns = {"predictions": [f"p{j}" for j in range(6)], "features": []}
    cluster.fitted_ = replace(cluster.fitted_, frame_columns=columns)
    for model in (sites, cluster):
        assert model.members_[0]["name"] in write_report(model, tmp_path / "page.html").read_text()
        model.save(tmp_path / "m.safetensors")
        with TestClient(create_app(tmp_path / "m.safetensors")) as client:
            rows = np.where(np.isnan(P[:2]), None, P[:2]).tolist()
            assert client.post("/fuse", json={"predictions": rows}).json()["classes"] == [0, 1]
            assert client.get("/instances").status_code == 404
