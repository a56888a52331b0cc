"""Links that leave docs/ lead to pages of the site, and diagrams are drawn or say what is wrong."""

from pathlib import Path

import pytest

from infra.site import built_pages
from infra.site.diagram import BadDiagram, svg
from infra.site.docstring_text import as_markdown
from infra.site.source_pages import BadPage, assemble


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site") / "source"
    assemble(into, {"reference/made.md": "# made"})
    return into


def test_a_link_out_of_docs_leads_to_a_page_that_shows_the_file(source: Path) -> None:
    assert "(repository/README.md)" in (source / "README.md").read_text()
    assert "(../configuration.md#plain-rows)" in (source / "repository/README.md").read_text()
    assert "streams:" in (source / "repository/firn.yaml.md").read_text()


def test_links_in_code_stay_and_what_runs_a_block_is_not_shown(source: Path) -> None:
    assert "```sh run" not in (source / "repository/README.md").read_text()
    assert "```sh\ncurl" in (source / "repository/README.md").read_text()


def test_a_generated_page_may_not_stand_in_docs_too(tmp_path: Path) -> None:
    with pytest.raises(BadPage, match=r"README\.md is generated"):
        assemble(tmp_path / "source", {"README.md": "# another"})


def test_a_diagram_has_its_boxes_arrows_and_title() -> None:
    drawn = svg('box a "one\\ntwo" 0 0\nstore b "kept <x>" 1 0\na -> b "put"\nb --> a', "how it goes")
    assert drawn.count("<rect") == 2
    assert drawn.count('class="arrow') == 2
    assert "kept &lt;x&gt;" in drawn
    assert 'aria-label="how it goes"' in drawn


@pytest.mark.parametrize("text", ["box a 0 0", 'box a "x" 0 0\na -> b', "", 'box a "x" 0 0\nbox b "y" 0 0\na -> b'])
def test_a_diagram_that_cannot_be_drawn_says_so(text: str) -> None:
    with pytest.raises(BadDiagram):
        svg(text, "title")


def test_what_was_built_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(
        '<h1 id="top"></h1><a href="two.html#there"></a><a href="none.html"></a><a href="#top"></a>'
        '<script src="https://elsewhere.example/x.js"></script><a href="https://elsewhere.example">ok</a>'
    )
    (tmp_path / "two.html").write_text("<p>")
    (tmp_path / "a.css").write_text("@import 'https://elsewhere.example/font.css'; b {background: url(c.png)}")
    assert sorted(built_pages.problems(tmp_path)) == [
        "a.css: loads https://elsewhere.example/font.css",
        "one.html: loads https://elsewhere.example/x.js",
        "one.html: none.html is not there",
        "one.html: two.html#there has no such heading",
    ]


def test_scripts_of_a_page_become_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for page in ("one.html", "below/two.html"):
        (tmp_path / page).write_text('<script>go()</script><script type="application/json">{}</script>')
    assert built_pages.move_inline_scripts(tmp_path) == 1
    [script] = (tmp_path / "assets/inline").iterdir()
    assert script.read_text() == "go()"
    assert f'src="../assets/inline/{script.name}"' in (tmp_path / "below/two.html").read_text()
    assert list(built_pages.problems(tmp_path)) == []


def test_entries_of_a_docstring_become_a_list() -> None:
    assert as_markdown("Read.\n\nrows, n  how many\n    at most\n\n>>> read()") == (
        "Read.\n\n\n- `rows`, `n`: how many\n  at most\n\n\n```python\nread()\n```"
    )
