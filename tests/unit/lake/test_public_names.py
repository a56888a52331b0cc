"""What `import firn_lake` offers."""

import ast
import inspect
from types import ModuleType

import pytest

import firn_lake


@pytest.mark.parametrize("name", dir(firn_lake))
def test_each_name_is_there(name: str) -> None:
    found = getattr(firn_lake, name)
    assert not isinstance(found, ModuleType)
    assert found.__doc__, f"{name} says nothing of itself"


def test_the_names_for_type_checkers_are_the_same() -> None:
    tree = ast.parse(inspect.getsource(firn_lake))
    told = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("firn_lake.")
        for alias in node.names
    }
    assert told == {name: f"firn_lake.{where}" for name, where in firn_lake.WHERE.items()}
