"""CSV as Go reads it: records taken, and the exact words for those refused."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dcgm.gocsv import CsvError, read


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("a,b,c\n", [["a", "b", "c"]]),
        ("a,b,c", [["a", "b", "c"]]),
        ("a, b ,c\r\n", [["a", " b ", "c"]]),
        ("# comment, with comma\n\na,b\n", [["a", "b"]]),
        ("a,#b\n", [["a", "#b"]]),
        ('"a,b",c\n', [["a,b", "c"]]),
        ('"a ""b""",c\n', [['a "b"', "c"]]),
        ('"two\nlines",c\n', [["two\nlines", "c"]]),
        ("a,b\n\n\nc,d\n", [["a", "b"], ["c", "d"]]),
        (",\n", [["", ""]]),
        ("", []),
        ("#only\n", []),
        (" #x\n", [[" #x"]]),
        ("a\u2028b,c\x0bd\n", [["a\u2028b", "c\x0bd"]]),
    ],
)
def test_records_are_those_of_encoding_csv(text: str, records: list[list[str]]) -> None:
    """Comments only in column 0, empty lines skipped, quotes only around a whole field,
    only newlines end a line.
    """
    assert [record.fields for record in read(text)] == records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\nd,e\n", "record on line 2: wrong number of fields"),
        ("# c\na,b\nd,e,f\n", "record on line 3: wrong number of fields"),
        ('a,b"c\n', 'parse error on line 1, column 4: bare " in non-quoted field'),
        ('a, "b"\n', 'parse error on line 1, column 4: bare " in non-quoted field'),
        ('é,b"c\n', 'parse error on line 1, column 5: bare " in non-quoted field'),
        ('a,"b"c\n', 'parse error on line 1, column 5: extraneous or missing " in quoted-field'),
        ('a,"b\n', 'parse error on line 1, column 6: extraneous or missing " in quoted-field'),
        (
            'x,y\na,"b\nc"d\n',
            (
                "record on line 2; parse error on line 3, column 2: extraneous or "
                'missing " in quoted-field'
            ),
        ),
    ],
)
def test_errors_are_in_gos_words(text: str, message: str) -> None:
    """Line and column in bytes as Go's ParseError prints them, so that a search for the
    message finds its answers.
    """
    with pytest.raises(CsvError) as error:
        read(text)
    assert str(error.value) == message


FIELDS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)


@pytest.mark.slow
@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=6))
def test_what_a_csv_writer_quotes_is_read_back(rows: list[tuple[str, str, str]]) -> None:
    """Whatever the fields hold, quoting brings it through."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    assert [tuple(record.fields) for record in read(text.getvalue())] == rows
