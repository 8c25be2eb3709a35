"""ESCO: the real files to the digit, both readers, zips, the naming of 1.2, and broken files."""

import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from halfstep.data.datasets import DataWarning, load_esco

RELATIONS = """occupationUri,relationType,skillType,skillUri
o/1,essential,knowledge,s/1
o/1,optional,skill/competence,s/2
o/2,essential,skill/competence,s/2
"""
OCCUPATIONS = 'conceptType,conceptUri,preferredLabel,altLabels\nO,o/1,baker,"bread\nmaker"\nO,o/2,"cook, chef",\n'
SKILLS = "conceptUri,preferredLabel\ns/1,bake\ns/2,taste\ns/3,unused\n"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write(tmp_path / "esco", occupationSkillRelations=RELATIONS, occupations_en=OCCUPATIONS, skills_en=SKILLS)


@pytest.mark.parametrize("engine", ["python", "arrow"])
def test_real_files(real_data: Path, engine: str) -> None:
    if engine == "arrow":
        pytest.importorskip("pyarrow")
    with pytest.warns(DataWarning, match="1 occupation has no title in the files and shows its id"):
        data = load_esco(real_data / "esco-1.1.1", engine=engine)
    assert data.shape == (3008, 13125)
    assert len(data) == 123_855
    assert data.report["essential"] == 64_946
    assert data.report["optional"] == 58_909
    assert data.report["duplicates"] == data.report["broken_rows"] == 0
    assert data.report["unknown_occupations"] == 1
    assert data.report["unknown_skills"] == 0
    assert data.matrix.data.min() == data.matrix.data.max() == 1.0
    assert data.user_labels is not None
    nameless = np.flatnonzero(data.user_labels == data.user_ids)
    assert len(nameless) == 1
    assert data.matrix[[int(nameless[0])]].nnz == 67
    assert "technical director" in data.user_labels


def test_reading_imports_no_compute_functions_of_pyarrow(small: Path) -> None:
    """They take a tenth of a second; narwhals asks for them."""
    pytest.importorskip("pyarrow")
    code = (
        "import sys; from halfstep.datasets import load_esco; load_esco(sys.argv[1], engine='arrow')\n"
        "assert 'pyarrow.csv' in sys.modules and 'pyarrow.compute' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(small)], check=True)


def test_real_files_read_alike_by_both_engines(real_data: Path) -> None:
    pytest.importorskip("pyarrow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        one, two = (load_esco(real_data / "esco-1.1.1", engine=engine) for engine in ("python", "arrow"))
    assert (one.matrix != two.matrix).nnz == 0
    for name in ("user_ids", "item_ids", "user_labels", "item_labels"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.report == two.report


def test_real_files_load_fast(real_data: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        start = time.process_time()
        load_esco(real_data / "esco-1.1.1", engine="python")
    # CPU seconds, so that a busy machine does not fail it; it takes about 0.5.
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("engine", ["python", "arrow"])
def test_folder(small: Path, engine: str) -> None:
    data = load_esco(small, weights={"essential": 2.0, "optional": 0.5}, engine=engine)
    assert data.user_labels is not None
    assert data.user_labels.tolist() == ["baker", "cook, chef"]
    assert data.item_labels is not None
    assert data.item_labels.tolist() == ["bake", "taste"]
    assert data.matrix.toarray().tolist() == [[2.0, 0.5], [0.0, 2.0]]
    assert data.report["skills_without_relations"] == 1
    assert data.report["files"] == ["occupationSkillRelations.csv", "occupations_en.csv", "skills_en.csv"]


def test_zip_with_a_folder_inside_and_macos_shadows(small: Path, tmp_path: Path) -> None:
    packed = tmp_path / "esco.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in small.iterdir():
            archive.write(file, f"ESCO dataset/{file.name}")
            archive.writestr(f"__MACOSX/ESCO dataset/._{file.name}", b"\x00\x05")
    assert (load_esco(packed).matrix != load_esco(small).matrix).nnz == 0


def test_version_1_2_names_and_languages(tmp_path: Path) -> None:
    relations = (
        "\ufeffoccupationUri,occupationLabel,relationType,skillType,skillUri,skillLabel\r\n"
        "o/1,Bäcker,essential,knowledge,s/1,backen\r\no/9,Koch,optional,knowledge,s/1,backen\r\n"
    )
    folder = write(
        tmp_path / "e",
        occupationSkillRelations_de=relations,
        occupations_de="conceptUri,preferredLabel\no/1,Bäcker\n",
        skills_de="conceptUri,preferredLabel\ns/1,backen\n",
    )
    data = load_esco(folder)
    assert data.user_labels is not None
    assert data.user_labels.tolist() == ["Bäcker", "Koch"]  # o/9 is known only from the relations
    assert data.report["unknown_occupations"] == 1
    write(folder, skills_fr="conceptUri,preferredLabel\ns/1,cuire\n")
    with pytest.raises(ValueError, match=r"language=None is not among the skills files.*\['de', 'fr'\]"):
        load_esco(folder)
    with pytest.raises(ValueError, match=r"language='es'.*must be one of \['de'\]"):
        load_esco(folder, language="es")
    assert load_esco(folder, language="DE").item_labels.tolist() == ["backen"]  # type: ignore[union-attr]


def test_only_essential(small: Path) -> None:
    data = load_esco(small, weights={"essential": 3})
    assert len(data) == 2
    assert data.report["not_loaded"] == 1


@pytest.mark.parametrize("engine", ["python", "arrow"])
def test_broken_rows_and_unknown_things_are_counted_and_mentioned(small: Path, engine: str) -> None:
    broken = RELATIONS + "o/1,essential\n,essential,knowledge,s/1\no/7,wanted,knowledge,s/1\no/2,optional,k,s/2\n"
    write(small, occupationSkillRelations=broken)
    with pytest.warns(DataWarning) as caught:
        data = load_esco(small, weights={"essential": 1.0, "optional": 0.5}, engine=engine)
    text = str(caught[0].message)
    assert "1 broken rows left out" in text
    assert "1 rows without a user or item id left out" in text
    assert "1 rows with an unknown relation type left out" in text
    assert caught[0].filename == __file__
    assert data.report["rows"] == 7
    assert data.report["duplicates"] == 1
    assert data.matrix.toarray().tolist() == [[1.0, 0.5], [0.0, 1.0]]  # the larger weight of the pair stays


def test_errors_say_what_to_do(small: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; it must be the ESCO folder or zip"):
        load_esco(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"must map 'essential', 'optional' or both.*\['essentail'\]"):
        load_esco(small, weights={"essentail": 1.0})
    with pytest.raises(ValueError, match=r"weights\['optional'\]=0 must be a positive number; leave"):
        load_esco(small, weights={"essential": 1.0, "optional": 0})
    write(small, skills_en="uri,label\ns/1,bake\n")
    with pytest.raises(
        ValueError,
        match=r"skills_en.csv lacks the columns \['conceptUri', 'preferredLabel'\]; it has \['uri', 'label'\]",
    ):
        load_esco(small)
    write(small, skills_en="")
    with pytest.raises(ValueError, match=r"skills_en.csv is empty; its first line must name the columns"):
        load_esco(small)
    (small / "skills_en.csv").write_bytes(b"conceptUri,preferredLabel\ns/1,caf\xe9\n")
    with pytest.raises(ValueError, match=r"skills_en.csv is not utf-8 text"):
        load_esco(small)
    (small / "occupationSkillRelations.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no occupationSkillRelations.csv.*Found: occupations_en.csv"):
        load_esco(small)


def test_without_concept_files_ids_stand_for_labels(tmp_path: Path) -> None:
    folder = write(tmp_path / "e", occupationSkillRelations=RELATIONS)
    with pytest.warns(DataWarning, match="2 occupations have no title.*2 skills have no title"):
        data = load_esco(folder)
    assert data.user_labels is not None
    assert data.user_labels.tolist() == ["o/1", "o/2"]
