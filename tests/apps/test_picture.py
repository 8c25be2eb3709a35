"""Charts as pictures of their own."""

from xml.etree import ElementTree

from halfstep.report import charts, write_picture


def test_a_picture_stands_alone_and_says_what_it_shows(tmp_path):
    caption = "A caption that is much longer than the drawing is wide, so that it takes a second line of its own below."
    figure = charts.lines("A < B", {"x": ([1, 2], [3, 4])}, x_label="a", y_label="b", caption=caption)
    path = write_picture(figure, tmp_path / "p.svg")
    text = path.read_text()
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == figure.alt
    words = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "A < B" in words
    told = [word for word in words if word and word in caption]
    assert " ".join(told[-2:]) == caption
    assert "--c0" in text  # its colours come along
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
