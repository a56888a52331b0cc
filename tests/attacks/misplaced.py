"""What is right at one place of an event at another one, or in another form: nested wrongly, of another kind, twice;
and events whose text is cut, doubled or followed by more."""

import random
from collections.abc import Callable
from typing import Final

from tests.attacks.json_trees import Tree, Twice, Verbatim, at, places, replaced, text_of

Odd = Callable[[random.Random], Tree]
_LONG: Final = "x" * 20_000
_WITHIN: Final = ("\0", "\x7f", "\u2028", "\\u0000", "\\ud83d", "\t", "\ufeff")
# No value of its own, which would be one more event in some requests and a part of the same line in others.
_BEHIND: Final = ("x", "\0", ",", "\x1a", "//c", "\ufeff", "\u2028", '"', ":", "]", "\\", " nul")


def misplaced(dice: random.Random, event: Tree, odd: Odd) -> Tree:
    """The event with one of its values elsewhere, in another form or beside itself. `odd`: any value."""
    every = places(event)
    *path, last = dice.choice(every)
    parent = at(event, path)
    value = parent[last]
    elsewhere = Verbatim(text_of(at(event, dice.choice(every))))
    match dice.randrange(8):
        case 0:
            parent[last] = dice.choice(([value], [value, value], {"x": value}, {"": value}, [[value]]))
        case 1:
            parent[last] = text_of(value)
        case 2 if type(value) in (dict, list) and value:
            parent[last] = next(iter(value.values() if isinstance(value, dict) else value))
        case 3:
            parent[last] = elsewhere
        case 4 | 5 if isinstance(parent, dict):
            again = (last, dice.choice((odd(dice), None, elsewhere, Verbatim(text_of(value)))))
            members = [*parent.items()]
            return replaced(event, path, Twice([again, *members] if dice.random() < 0.5 else [*members, again]))
        case 6 if isinstance(parent, dict):
            parent[dice.choice((_LONG, str(last) * 2, str(last).upper(), f"{last}\0", f" {last}"))] = parent.pop(last)
        case _:
            parent[last] = _of_another_kind(dice, value)
    return event


def _of_another_kind(dice: random.Random, value: Tree) -> Tree:
    if isinstance(value, Verbatim | Twice) or value is None:
        return dice.choice(("", 0, [], {}, False))
    if isinstance(value, bool):
        return dice.choice((int(value), str(value).lower(), [value]))
    if isinstance(value, int):
        wide = (-value, value + 2**63, value + 2**64, value * 10**30, -(2**63) - 1)
        spelled = (Verbatim(f"{value}.0"), Verbatim(f"{value}e0"), Verbatim(f"{value}e999"), str(value), f"{value} ")
        return dice.choice((*wide, *spelled))
    if isinstance(value, float):
        return dice.choice((str(value), Verbatim("1e999"), int(value) if abs(value) < 1e15 else 0, -value))
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return {str(place): one for place, one in enumerate(value)}
    signs = (value[:-1], value[1:], f"{value} ", f" {value}", f"{value}\0", f"{value}\ud800", f"٣{value}")
    return dice.choice((*signs, value.upper(), value * 50, _LONG, list(value)[:9]))


def broken(dice: random.Random, text: str) -> str:
    """The event's text with something wrong that no tree has; UTF-8, and of one line."""
    start, end = sorted((dice.randrange(len(text)), dice.randrange(len(text))))
    match dice.randrange(7):
        case 0:
            return "\ufeff" + text
        case 1:
            return text + dice.choice(_BEHIND)
        case 2:
            return text[: end + 1]
        case 3:
            return text[:start] + text[end:]
        case 4:
            return text[:end] + text[start:]
        case 5:
            return text.replace('"', dice.choice(("'", "”", "")), dice.choice((1, 2, -1)))
        case _:
            return text[:start] + dice.choice(_WITHIN) + text[start:]
