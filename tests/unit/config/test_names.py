import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.config.names import TableName, owner, quoted, slug

part = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)


def test_a_name_is_parted_at_its_first_dot() -> None:
    assert TableName.parse("shop.orders") == TableName("shop", "orders")
    assert TableName.parse("shop.dot.ted") == TableName("shop", "dot.ted")


@pytest.mark.parametrize("text", ["orders", "", ".", "shop.", ".orders", "a.b\nc"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"table name|namespace"):
        TableName.parse(text)


def test_a_namespace_holds_no_dot() -> None:
    with pytest.raises(ValueError, match="holds a dot"):
        TableName("a.b", "c")


@given(part.filter(lambda namespace: "." not in namespace), part)
def test_parse_is_the_inverse_of_str(namespace: str, table: str) -> None:
    name = TableName(namespace, table)
    assert TableName.parse(str(name)) == name


def test_names_are_quoted_for_spark() -> None:
    assert TableName("s", "Mixed `Case`-Table").quoted == "`s`.`Mixed ``Case``-Table`"
    assert quoted("a.b; DROP TABLE x") == "`a.b; DROP TABLE x`"


def test_plain_names_are_their_own_place() -> None:
    assert TableName("shop", "order_items-2").slug == "shop/order_items-2"


@pytest.mark.parametrize(
    "name", ["Mixed Case-Table", "日本語", "../../etc", "a/b", "", "Orders", "x" * 200, ".", "$d", "a%2Fb"]
)
def test_odd_names_get_a_safe_place(name: str) -> None:
    assert set(slug(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert 0 < len(slug(name)) <= 63


@given(st.text(), st.text())
def test_different_names_never_share_a_place(one: str, other: str) -> None:
    assert (slug(one) == slug(other)) == (one == other)


def test_a_name_that_looks_like_a_hashed_one_does_not_take_its_place() -> None:
    assert slug(slug("Mixed Case")) != slug("Mixed Case")


def test_the_table_of_a_tables_deletes_is_known_by_its_name() -> None:
    assert [owner(one) for one in ("shop.orders", "shop.orders__deletes", "shop.orders__deletes_3_0a1b2c3d")] == (
        ["shop.orders"] * 3
    )
    assert owner("shop.orders__deletes_all") == "shop.orders__deletes_all"
