"""Codes of SOC 2018 and the groups they lie in."""

from __future__ import annotations

import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.survey.soc import LEVELS, Level, group_of, level_of, title_of, titles

MAJOR, MINOR, BROAD, DETAILED = titles().values()


def test_the_classification_has_23_major_and_98_minor_groups() -> None:
    assert (len(MAJOR), len(MINOR)) == (23, 98)
    assert len(DETAILED) > 60
    assert len({group_of(code, "major") for code in DETAILED}) == 22  # all but the military


@pytest.mark.parametrize(
    ("code", "broad", "minor", "major"),
    [
        ("11-1021", "11-1020", "11-1000", "11-0000"),
        ("11-9111", "11-9110", "11-9000", "11-0000"),
        ("15-1252", "15-1250", "15-1200", "15-0000"),  # the three minor groups that end in 00
        ("15-1299", "15-1290", "15-1200", "15-0000"),
        ("31-1121", "31-1120", "31-1100", "31-0000"),
        ("31-1131", "31-1130", "31-1100", "31-0000"),
        ("51-5112", "51-5110", "51-5100", "51-0000"),
        ("15-2051", "15-2050", "15-2000", "15-0000"),  # and their neighbours
        ("31-9092", "31-9090", "31-9000", "31-0000"),
        ("51-4041", "51-4040", "51-4000", "51-0000"),
        ("29-1215", "29-1210", "29-1000", "29-0000"),
        ("29-1221", "29-1210", "29-1000", "29-0000"),  # there is no 29-1220
        ("29-1229", "29-1210", "29-1000", "29-0000"),
        ("29-1241", "29-1240", "29-1000", "29-0000"),
        ("43-5111", "43-5110", "43-5000", "43-0000"),
        ("53-7121", "53-7120", "53-7000", "53-0000"),
        ("55-3019", "55-3010", "55-3000", "55-0000"),
    ],
)
def test_every_parent_of_a_detailed_code_is_right(
    code: str, broad: str, minor: str, major: str
) -> None:
    groups = dict(zip(LEVELS, (major, minor, broad, code), strict=True))
    for place, (level, group) in enumerate(groups.items()):
        assert level_of(group) == level
        assert group_of(code, level) == group
        for coarser in LEVELS[: place + 1]:
            assert group_of(group, coarser) == groups[coarser]
        for finer in LEVELS[place + 1 :]:
            with pytest.raises(Refusal, match=f"is a {level} group"):
                group_of(group, finer)


@pytest.mark.parametrize(
    "code",
    ["", "11", "11-10", "11-10111", "111-011", "11-101a", " 11-1011", "11-1011 ", "11-1011\n",
     "１１-1011", "10-1011", "12-0000", "99-9999", "15-1000", "15-1100", "15-1111", "31-1000",
     "31-1011", "51-5000", "51-5012", "29-1220", "11-9100", "11-1001", "11-8011", "11-1021.00"],
)  # fmt: skip
def test_what_is_no_code_of_2018_is_refused(code: str) -> None:
    with pytest.raises(Refusal, match=re.escape(f"{code!r} is no code of SOC 2018")):
        level_of(code)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(Refusal, match="choose from major, minor, broad, detailed"):
        group_of("11-1021", cast(Level, "detail"))


def test_every_title_belongs_to_a_code_and_every_group_of_a_titled_code_has_a_title() -> None:
    for code in DETAILED:
        assert level_of(code) == "detailed"
        assert all(group_of(code, level) in titles()[level] for level in LEVELS)
    assert {group_of(code, "broad") for code in DETAILED} == set(BROAD)
    for level, known in titles().items():
        assert {level_of(code) for code in known} == {level}
        assert all(title and title == title.strip() for title in known.values())
    assert title_of("29-1210") == "Physicians"
    assert title_of("19-1041") == "19-1041"


@given(
    st.from_regex(r"[0-9]{2}-[0-9]{4}", fullmatch=True)
    | st.builds(
        lambda minor, last: f"{minor.rstrip('0')}{last}"[:7],
        st.sampled_from(sorted(MINOR)),
        st.from_regex(r"[0-9]{3}", fullmatch=True),
    )
)
def test_any_code_is_refused_or_has_a_whole_line_of_groups(code: str) -> None:
    try:
        own = level_of(code)
    except Refusal:
        return
    line = [group_of(code, level) for level in LEVELS[: LEVELS.index(own) + 1]]
    assert line[-1] == code
    assert [level_of(group) for group in line] == list(LEVELS[: len(line)])
    assert line == sorted(line)
