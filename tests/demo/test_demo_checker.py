"""The demo's checker: it must be able to say no."""

from html.parser import HTMLParser

import msgspec
import pytest
from demo_ledgers import report_of

from dupeproof_lab.demo.command import conclude
from dupeproof_lab.demo.report import closing, facts, violations

EVERY = range(10)


def test_a_charge_for_every_order_is_exact(tmp_path, capsys):
    assert conclude(report_of(tmp_path, *EVERY), tmp_path, as_json=True) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("charged", "counts", "words"),
    [
        ([*EVERY, 3], (1, 0, 0), "dupeproof: order-0004 was charged 2 times"),
        ([n for n in EVERY if n != 7], (0, 1, 0), "dupeproof: order-0008 was never charged"),
        ([*EVERY, 99], (0, 0, 1), "dupeproof: 1 charges for orders that nobody made"),
        ([3, 3, 3, *(n for n in EVERY if n not in (3, 7))], (2, 1, 0), "order-0004 was charged 3 times"),
    ],
)
def test_a_doubled_a_lost_and_a_made_up_charge_are_found_and_end_with_1(
    tmp_path, capsys, charged, counts, words
):
    report = report_of(tmp_path, *charged)
    assert conclude(report, tmp_path, as_json=True) == 1
    shown = capsys.readouterr()
    found = msgspec.json.decode(shown.out)
    ours = found["consumers"]["dupeproof"]
    assert (ours["duplicates"], ours["losses"], ours["strangers"]) == counts
    assert found["proven"] is False
    assert words in shown.err


def test_a_doubled_order_does_not_make_up_for_a_lost_one(tmp_path):
    report = report_of(tmp_path, *range(9), 0)
    assert not report.proven
    assert violations(report.ours) == [
        "dupeproof: order-0001 was charged 2 times",
        "dupeproof: order-0010 was never charged",
    ]


def test_many_violations_are_cut_short(tmp_path):
    assert violations(report_of(tmp_path).ours)[-1] == "… and 5 more"


def test_the_table_and_the_words_are_printed(tmp_path, capsys):
    report = report_of(tmp_path, *EVERY)
    assert conclude(report, tmp_path / "new" / "folder", as_json=False) == 0
    shown = capsys.readouterr().out
    assert "duplicates" in shown
    assert " ".join(closing(report).split()) in " ".join(shown.split())
    assert closing(report).count(". ") == 1, "two sentences"


def test_the_page_needs_nothing_else_and_names_what_went_wrong(tmp_path):
    conclude(report_of(tmp_path, *EVERY, 3), tmp_path, as_json=True)
    page = (tmp_path / "demo.html").read_text()
    asked = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            asked.extend(value for name, value in attrs if name in ("src", "href"))

    Reader().feed(page)
    assert not asked
    assert "<title>order-0004: charged 2 times</title>" in page
    assert "<td>dupeproof</td>" in page


def test_the_picture_is_a_png(tmp_path):
    conclude(report_of(tmp_path, *EVERY), tmp_path, as_json=True)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_facts_are_plain_json(tmp_path):
    msgspec.json.encode(facts(report_of(tmp_path, *EVERY)))
