"""Random texts of conditions of rows (config.condition_text), over columns that the caller has: `b` is a boolean."""

from collections.abc import Sequence

from hypothesis import strategies as st

SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def conditions(
    depth: int, numbers: Sequence[str], texts: Sequence[str], fields: Sequence[str], letters: str
) -> st.SearchStrategy[str]:
    """`numbers`, `texts`: columns and constants that are compared with their like; `fields`: all columns, by any path;
    `letters`: what patterns of LIKE are made of."""
    if depth == 0:
        return _simple(st.sampled_from(numbers), st.sampled_from(texts), st.sampled_from(fields), letters)
    inner = conditions(depth - 1, numbers, texts, fields, letters)
    return inner | st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({})".format, inner),
    )


def _simple(
    numbers: st.SearchStrategy[str], texts: st.SearchStrategy[str], fields: st.SearchStrategy[str], letters: str
) -> st.SearchStrategy[str]:
    nots, kinds = st.sampled_from(["", "NOT "]), st.sampled_from([numbers, texts])
    return st.one_of(
        kinds.flatmap(lambda kind: st.builds("{} {} {}".format, kind, SIGNS, kind)),
        kinds.flatmap(lambda kind: st.builds("{} {}IN ({}, {})".format, kind, nots, kind, kind)),
        kinds.flatmap(lambda kind: st.builds("{} {}BETWEEN {} AND {}".format, kind, nots, kind, kind)),
        st.builds("{} {}LIKE '{}'".format, texts, nots, st.text(letters, max_size=4)),
        st.builds("{} IS {}NULL".format, fields, nots),
        st.builds("b IS {}{}".format, nots, st.sampled_from(["TRUE", "FALSE"])),
        st.sampled_from(["b", "b = true", "b <> false", "true = b", "b < true"]),
    )
