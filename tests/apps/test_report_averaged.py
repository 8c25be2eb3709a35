"""The report of an averaged ensemble, fresh and loaded from its file."""

import halfstep as hs
from halfstep.apps.report import write_report


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
