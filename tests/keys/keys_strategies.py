"""Values that hypothesis draws for the tests of keys."""

from datetime import UTC

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
whole = st.integers(-(2**53), 2**53)
doubles = st.floats(allow_nan=False, allow_infinity=False)
json_scalars = st.none() | st.booleans() | whole | doubles | texts
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
tagged_scalars = st.one_of(
    st.integers(2**53 + 1, 2**80),
    st.integers(-(2**80), -(2**53) - 1),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.binary(max_size=8),
)
scalars = json_scalars | tagged_scalars
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(scalars, inner, max_size=3)
        | st.frozensets(scalars, max_size=3)
    ),
    max_leaves=8,
)
