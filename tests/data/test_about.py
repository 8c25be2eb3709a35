"""What loaders know beside interactions: groups, flags, words of both sides, also of entries without interactions."""

from pathlib import Path

import numpy as np
import pytest

from halfstep.data.datasets import load_esco, load_movielens, load_onet, load_sample_skills

ESCO = {
    "occupationSkillRelations": (
        "occupationUri,relationType,skillUri\no/1,essential,s/1\no/2,optional,s/1\no/2,essential,s/2\n"
    ),
    "occupations_en": (
        "conceptUri,iscoGroup,preferredLabel,altLabels,description,code\n"
        'o/1,2654,art director,"head of art\nart boss",Leads art.,2654.1.7\n'
        "o/2,2655,actor,,Plays.,2655.1\no/3,2654,set director,,Leads sets.,2654.1\n"
    ),
    "skills_en": (
        "conceptUri,skillType,reuseLevel,preferredLabel,altLabels,description\n"
        "s/1,knowledge,cross-sector,drama,stage | theatre,Of plays.\n"
        "s/2,skill,,speak,,Aloud.\ns/3,skill,transversal,sing,,x\n"
    ),
    "broaderRelationsSkillPillar": "conceptUri,broaderUri\ns/1,g/1\ng/1,g/0\ng/0,g/1\ns/2,g/0\n",  # with a circle
}


@pytest.fixture
def esco(tmp_path: Path) -> Path:
    for name, text in ESCO.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def row(about, id):
    place = about.ids.tolist().index(id)
    return {name: values[place] for name, values in about.columns.items()}


def test_esco_knows_groups_types_and_names_of_both_sides(esco):
    data = load_esco(esco)
    assert row(data.about_users, "o/1") == {
        "group": ["2", "26", "265", "2654", "2654.1"],  # 2654.1.7 is its own alone
        "title": "art director",
        "altLabels": ["head of art", "art boss"],
        "description": "Leads art.",
    }
    assert row(data.about_users, "o/3")["group"][-1] == "2654.1"  # without a relation, and known
    skill = row(data.about_items, "s/1")
    assert skill["group"] == ["g/1", "g/0"]
    assert (skill["type"], skill["reuse"]) == ("knowledge", "cross-sector")
    assert skill["altLabels"] == ["stage", "theatre"]
    assert row(data.about_items, "s/2")["reuse"] is None


def test_features_are_chosen_by_column_and_text(esco):
    data = load_esco(esco)
    assert data.user_features(text=[]).names == tuple(
        f"group={g}" for g in ("2", "26", "265", "2654", "2654.1", "2655")
    )
    assert data.user_features([], ["title", "description"]).names == ("title: director", "title: leads")
    assert data.user_features([], [["title"], ["description"]]).names == ("title: director", "description: leads")
    everything = data.item_features()
    assert {"group=g/0", "type=skill", "reuse=transversal"} < set(everything.names)
    assert everything.ids.ids.tolist() == ["s/1", "s/2", "s/3"]
    with pytest.raises(ValueError, match=r"text='titel' is not known of them.*Did you mean 'title'"):
        data.user_features(text=["titel"])
    with pytest.raises(ValueError, match="nothing but interactions is known of the users"):
        load_sample_skills().user_features()


def test_what_is_known_changes_sides_and_stays_whole(esco):
    data = load_esco(esco)
    assert data.T.about_users is data.about_items
    assert data.subset(users=["o/2"]).user_features([], ["title"]).shape[0] == 3  # those left out are cold, and known


def test_onet_knows_families_zones_commodities_and_hot_technologies(tmp_path):
    files = {
        "Occupation Data": (
            "O*NET-SOC Code|Title|Description\n11-1011.03|Chiefs|Lead.\n15-1252.00|Programmers|Write code."
        ),
        "Job Zones": "O*NET-SOC Code|Job Zone\n15-1252.00|4",
        "Alternate Titles": "O*NET-SOC Code|Alternate Title\n15-1252.00|Coder\n15-1252.00|Developer",
        "Task Statements": "O*NET-SOC Code|Task ID|Task\n15-1252.00|1|Write programs.",
        "Technology Skills": (
            "O*NET-SOC Code|Example|Commodity Code|Commodity Title|Hot Technology\n"
            "15-1252.00|Python|43232408|Web software|Y\n11-1011.03|Python|43232405|Object software|N\n"
            "11-1011.03|Quill|44121701|Pens|N"
        ),
        "Tasks to DWAs": "O*NET-SOC Code|Task ID|DWA ID\n15-1252.00|1|4.A.2.b.2.I01.D01",
        "DWA Reference": "DWA ID|DWA Title\n4.A.2.b.2.I01.D01|Write code.",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.txt").write_text(text.replace("|", "\t") + "\n", encoding="utf-8")
    data = load_onet(tmp_path)
    chief, programmer = row(data.about_users, "11-1011.03"), row(data.about_users, "15-1252.00")
    assert chief["group"] == ["11", "11-1", "11-101", "11-1011"]
    assert np.isnan(chief["zone"])
    assert (programmer["zone"], programmer["altTitles"]) == (4, ["Coder", "Developer"])
    assert programmer["tasks"] == ["Write programs."]
    python = row(data.about_items, "Python")
    assert python["hot"]
    assert python["commodity"] == ["43", "4323", "432324", "43232408", "43232405"]
    assert python["kind"] == ["Web software", "Object software"]
    assert {"hot", "zone"} < {*data.item_features().names, *data.user_features().names}
    with pytest.warns(UserWarning, match="no Task Ratings"):
        activities = load_onet(tmp_path, "activities")
    assert row(activities.about_items, "4.A.2.b.2.I01.D01")["group"] == [
        *("4.A", "4.A.2", "4.A.2.b", "4.A.2.b.2", "4.A.2.b.2.I01")
    ]
    assert "tasks" not in activities.about_users.columns  # activities are made of them


@pytest.mark.parametrize("layout", ["old", "dat", "csv"])
def test_films_have_genres_years_and_titles_and_viewers_what_is_known_of_them(layout, tmp_path):
    flags = "|".join("1" if place in (5, 8) else "0" for place in range(19))
    files = {
        "old": {
            "u.data": "1\t3\t5\t900\n",
            "u.item": f"3|Tin Men (1987)|01-Jan-1987||http://x|{flags}\n",
            "u.user": "1|24|M|technician|85711\n",
        },
        "dat": {
            "ratings.dat": "1::3::5::900\n",
            "movies.dat": "3::Tin Men (1987)::Comedy|Drama\n",
            "users.dat": "1::M::24::technician::85711\n",
        },
        "csv": {
            "ratings.csv": "userId,movieId,rating,timestamp\n1,3,5,900\n",
            "movies.csv": "movieId,title,genres\n3,Tin Men (1987),Comedy|Drama\n4,Nothing,(no genres listed)\n",
        },
    }
    for name, text in files[layout].items():
        (tmp_path / name).write_text(text)
    data = load_movielens(tmp_path)
    era = ["1980s", "1987"]
    assert row(data.about_items, 3) == {"genres": ["Comedy", "Drama"], "year": 1987, "era": era, "title": "Tin Men"}
    if layout == "csv":
        assert data.about_users is None
        assert row(data.about_items, 4) == {"genres": [], "year": None, "era": [], "title": "Nothing"}
    else:
        assert data.user_features().names == ("gender=M", "age", "occupation=technician")


@pytest.mark.heavy
def test_real_files_give_features_of_everything(real_data):
    with pytest.warns(UserWarning, match="no title"):
        data = load_esco(real_data / "esco-1.1.1")
    users = data.user_features(text=["title"])
    assert users.shape[0] == 3007  # one occupation has no row of its own
    assert {"group=2", "group=2654", "group=2654.1", "title: director"} < set(users.names)
    skills = data.item_features(text=[])
    assert skills.shape == (13_896, 6)
    films = load_movielens(real_data / "movietweetings-100k")
    assert films.licence == "see its LICENSE.txt"
    assert films.item_features(text=[]).shape[0] == 10_506


def test_other_names_of_the_files_find_rows_in_models_and_their_files(esco, tmp_path):
    import halfstep as hs

    for fitted in (hs.WALS(1, random_state=0), hs.baselines.ItemKNN()):
        model = fitted.fit(load_esco(esco))
        model.save(tmp_path / "model.safetensors")
        for each in (model, hs.load(tmp_path / "model.safetensors")):
            assert each.item_positions(["Theatre", "speak"]).tolist() == [0, 1]
            assert each.user_positions(["art boss"]).tolist() == [0]
            assert each.fitted_.names[1].complete("thea", 3).tolist() == [0]
    more = hs.datasets.read_interactions([("o/9", "s/1"), ("o/9", "s/9")])
    grown = hs.WALS(1, random_state=0).fit(load_esco(esco)).partial_fit(more)
    assert grown.item_positions(["theatre"]).tolist() == [0]


def test_labels_are_cut_as_the_pattern_cuts_them():
    from halfstep.data.datasets.esco_about import _BETWEEN_LABELS, _labels

    for text in ("a", "a\nb", "a \n\n b", "a\n \t\nb c", "a|b\nc", "a||b", "a\r\nb", "a\n|b", "a\u2003\n\u2003b"):
        assert _labels(text) == _BETWEEN_LABELS.split(text)


def test_what_is_known_prints_as_one_line(esco):
    data = load_esco(esco)
    assert repr(data.about_users).startswith(f"<About {len(data.about_users.ids):,} ids: ")
    assert "\n" not in repr(data.about_items)
