"""Keys, hosts, pages, probes, metrics, documents, reload."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.apps.serve import create_app
from halfstep.apps.serve.metrics import FOLDER
from halfstep.apps.serve.observe import JsonFormatter
from halfstep.apps.serve.settings import Settings
from halfstep.data.files import ModelFileError

from ..counters import counters

KEY = "correct horse"


def test_a_key_guards_data_but_not_pages(skills_file: Path) -> None:
    with TestClient(create_app(skills_file, api_key=KEY)) as client:
        for path in ("/", "/docs", "/health", "/ready", "/static/js/main.js"):
            assert client.get(path).status_code == 200, path
        for path in ("/model", "/metrics", "/openapi.json", "/recommend?user=Economist"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert "Authorization: Bearer" in refused.json()["error"]
            assert client.get(path, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
            assert client.get(path, headers={"X-API-Key": KEY}).status_code == 200
            assert client.get(path, headers={"X-API-Key": KEY + "x"}).status_code == 401
        document = client.get("/openapi.json", headers={"X-API-Key": KEY}).json()
        assert document["security"] == [{"key": []}]


def test_other_hosts_are_refused_where_hosts_are_named(skills_file: Path) -> None:
    with TestClient(create_app(skills_file, allowed_hosts=("127.0.0.1", "::1"))) as client:
        assert client.get("/health", headers={"Host": "127.0.0.1:8000"}).status_code == 200
        assert client.get("/health", headers={"Host": "[::1]:8000"}).status_code == 200
        assert client.get("/health", headers={"Host": "evil.example"}).status_code == 403


def test_other_origins_are_refused_unless_named(client: TestClient, skills_file: Path) -> None:
    asked = {"Origin": "https://page.example"}
    assert "access-control-allow-origin" not in client.get("/recommend?user=Economist", headers=asked).headers
    with TestClient(create_app(skills_file, cors_origins=("https://page.example",))) as open_client:
        answer = open_client.get("/recommend?user=Economist", headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://page.example"


def test_answers_carry_safe_headers_and_a_request_id(client: TestClient) -> None:
    answer = client.get("/", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert client.get("/health", headers={"X-Request-ID": "a b\t"}).headers["x-request-id"] != "a b"


def test_pages_use_nothing_from_elsewhere() -> None:
    static = Path(create_app.__code__.co_filename).parent / "static"
    texts = {file: file.read_text() for file in static.rglob("*") if file.is_file()}
    assert {file.suffix for file in texts} == {".html", ".css", ".js", ".svg"}
    for file, text in texts.items():
        assert "http" not in text.replace("http://www.w3.org", ""), file


def test_the_document_names_every_endpoint(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    wanted = (
        "recommend recommend_for similar explain predict fuse health ready metrics model reload map complete profile"
    )
    assert {f"/{name}" for name in wanted.split()} <= document["paths"].keys()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
    fields = document["components"]["schemas"]["RecommendForBody"]["properties"]
    assert {"items", "n", "diversity", "why"} <= fields.keys()


def test_facts_of_the_model(client: TestClient, skills: WALS) -> None:
    facts = client.get("/model").json()
    assert facts["kind"] == "WALS"
    assert facts["sizes"] == {"users": len(skills.user_ids_), "items": len(skills.item_ids_), "rank": 8}
    assert facts["names"] == {"user": "occupation", "item": "skill"}
    assert facts["limits"]["max_n"] == 50


def test_metrics_count_requests(skills_file: Path) -> None:
    with TestClient(create_app(skills_file)) as client:
        for user in ("Economist", "nobody at all"):
            client.get("/recommend", params={"user": user})
        client.get("/nowhere")
        text = client.get("/metrics").text
    found = counters(text)
    assert found["halfstep_requests_total /recommend 200"] == 1
    assert found["halfstep_requests_total /recommend 404"] == 1
    assert found["halfstep_requests_total other 404"] == 1
    assert found["halfstep_request_seconds_bucket +Inf /recommend"] == 2
    assert found["halfstep_request_seconds_count /recommend"] == 2
    assert found["halfstep_requests_in_flight"] == 1  # the scrape itself
    assert found["halfstep_reloads_total failure"] == 0
    assert abs(found["halfstep_model_loaded_timestamp_seconds"] - time.time()) < 60
    assert found["process_resident_memory_bytes"] > 1e6
    assert abs(found["process_start_time_seconds"] - time.time()) < 86400
    assert 'halfstep_model_info{kind="WALS"' in text


def test_metrics_of_several_workers_are_summed(tmp_path: Path) -> None:
    work = """
import sys
from halfstep.apps.serve.metrics import Metrics
mine = Metrics(["/a"])
mine.request("/a", 200, float(sys.argv[1]))
mine.reload(True)
print(mine.text({}, {"kind": 'a"b'}))
"""
    environment = {**os.environ, FOLDER: str(tmp_path)}
    for seconds in ("0.002", "0.2"):  # a worker each
        text = subprocess.check_output([sys.executable, "-c", work, seconds], env=environment, text=True)
    found = counters(text)
    assert found["halfstep_requests_total /a 200"] == 2
    assert found["halfstep_request_seconds_bucket 0.0025 /a"] == 1
    assert found["halfstep_request_seconds_bucket +Inf /a"] == 2
    assert found["halfstep_reloads_total success"] == 2
    assert found['halfstep_model_info a"b'] == 1


def test_every_request_is_one_json_line(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="halfstep.serve"):
        client.get("/recommend?user=Economist", headers={"X-Request-ID": "id-7"})
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert line["event"] == "request"
    assert (line["request"], line["path"], line["status"]) == ("id-7", "/recommend", 200)


def other_model(path: Path) -> None:
    WALS(rank=2, random_state=0).fit(sp.random_array((9, 8), density=0.5, rng=np.random.default_rng(1))).save(path)


def test_a_new_file_is_taken_up_and_a_bad_one_is_not(skills_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(skills_file, path)
    with TestClient(create_app(path, watch_seconds=0.05, api_key=KEY), headers={"X-API-Key": KEY}) as client:

        def users() -> int:
            return client.get("/model").json()["sizes"]["users"]

        before = users()
        path.write_bytes(b"not a model")
        time.sleep(0.3)
        assert users() == before
        assert client.post("/reload").status_code == 409
        other_model(path)
        for _ in range(100):
            if users() != before:
                break
            time.sleep(0.05)
        assert users() == 9
        assert client.post("/reload").json()["reloaded"] is True
        metrics = client.get("/metrics").text
    assert counters(metrics)["halfstep_reloads_total failure"] == 2


def test_reload_needs_a_key(client: TestClient) -> None:
    assert client.post("/reload").status_code == 403


def test_a_file_that_is_no_model_raises_before_serving(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(ModelFileError, match="is not a safetensors file"):
        create_app(tmp_path / "x")


def test_settings_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"option='max_m' is not known.*Did you mean 'max_n'"):
        Settings.of({"max_m": 3})
    with pytest.raises(ValueError, match="max_n=0 must be a whole number of at least 1"):
        Settings(max_n=0)
    with pytest.raises(ValueError, match="timeout=-1 must be a finite number above 0"):
        Settings(timeout=-1)
    with pytest.raises(ValueError, match="api_key must be a text of at least 8 characters"):
        Settings(api_key="short")
    settings = Settings(cors_origins=("a",), workers=3)
    assert Settings.from_json(settings.to_json()) == settings
