"""`delete_when` as a condition of SQL: what may stand in it, and where it is refused.

A small part of SQL, read by the words of config.sql_text: ingest looks at each row by it, and can't load a database.
What it says it says as DuckDB does (tests/property/test_row_condition.py).
"""

from decimal import Decimal, InvalidOperation
from typing import Final

from firn.changes.row_condition import (
    Compared,
    Condition,
    Constant,
    Field,
    Holds,
    Is,
    IsNull,
    Joined,
    Like,
    Not,
    RowCondition,
    Sign,
    Value,
)
from firn.config.sql_text import Kind, SqlRefused, Token, tokens

_MOST_BYTES: Final = 10_000
_MOST_TOKENS: Final = 1_000
_DEEPEST: Final = 30
_SIGNS: Final[dict[str, Sign]] = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LONGEST_PATTERN: Final = 200
_WORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "LIKE"})
_ALLOWED: Final = (
    "write comparisons of fields and values with AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL, such as "
    "status = 'gone' OR deleted_at IS NOT NULL"
)


def parse(text: str) -> RowCondition:
    """The condition. Raises SqlRefused, with line and column."""
    if len(text.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        raise SqlRefused(1, 1, f"the condition has more than {_MOST_BYTES:,} bytes", "write less of it")
    found = tokens(text)
    if not found:
        raise SqlRefused(1, 1, "there is no condition", _ALLOWED)
    if len(found) > _MOST_TOKENS:
        raise found[_MOST_TOKENS].refuse(f"there are more than {_MOST_TOKENS:,} words and marks", "write fewer")
    reader = _Reader(found)
    condition = reader.either(0)
    if (token := reader.next) is not None:
        raise token.refuse(f"{token.text[:60]!r} stands where the condition has ended", _ALLOWED)
    return RowCondition(condition, frozenset(reader.fields))


class _Reader:
    def __init__(self, found: list[Token]) -> None:
        self._found = found
        self._place = 0
        self.fields: set[str] = set()

    @property
    def next(self) -> Token | None:
        return self._found[self._place] if self._place < len(self._found) else None

    def either(self, depth: int) -> Condition:
        return self._joined("OR", depth)

    def _joined(self, word: str, depth: int) -> Condition:
        parts = [self._one(word, depth)]
        while self._takes(word):
            parts.append(self._one(word, depth))
        return parts[0] if len(parts) == 1 else Joined(tuple(parts), word == "AND")

    def _one(self, word: str, depth: int) -> Condition:
        return self._joined("AND", depth) if word == "OR" else self._negated(depth)

    def _negated(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise self._token().refuse(f"it is more than {_DEEPEST} levels deep", "write it flatter")
        if self._takes("NOT"):
            return Not(self._negated(depth + 1))
        if self._takes("("):
            inner = self.either(depth + 1)
            self._needs(")")
            return inner
        return self._test()

    def _test(self) -> Condition:
        begin = self._token()
        left = self._operand()
        if (sign := self._sign()) is not None:
            return Compared(left, sign, self._operand())
        if self._takes("IS"):
            return self._is(left, begin)
        negative = self._takes("NOT")
        found = self._listed(left)
        if found is not None:
            return Not(found) if negative else found
        if negative:
            raise self._token().refuse("NOT stands before something else than IN, BETWEEN or LIKE", _ALLOWED)
        if isinstance(left, Field):
            return Holds(left)
        raise begin.refuse("a value alone is no condition", _ALLOWED)

    def _listed(self, left: Field | Constant) -> Condition | None:
        if self._takes("IN"):
            self._needs("(")
            values = [self._operand()]
            while self._takes(","):
                values.append(self._operand())
            self._needs(")")
            return Joined(tuple(Compared(left, "=", one) for one in values), False)
        if self._takes("BETWEEN"):
            low = self._operand()
            self._needs("AND")
            return Joined((Compared(left, ">=", low), Compared(left, "<=", self._operand())), True)
        if self._takes("LIKE"):
            token = self._token()
            pattern = self._operand()
            if not isinstance(pattern, Constant) or not isinstance(pattern.told, str):
                raise token.refuse("LIKE needs a text", "write LIKE 'del%'")
            if len(pattern.told) > _LONGEST_PATTERN:
                raise token.refuse(f"the text has more than {_LONGEST_PATTERN} characters", "write a shorter one")
            return Like(left, pattern.told)
        return None

    def _is(self, left: Field | Constant, begin: Token) -> Condition:
        negative = self._takes("NOT")
        if not isinstance(left, Field):
            raise begin.refuse("IS looks at a field", "write field IS NULL")
        found: Condition
        if self._takes("NULL"):
            found = IsNull(left)
        elif self._takes("TRUE") or self._takes("FALSE"):
            found = Is(left, self._found[self._place - 1].word == "TRUE")
        else:
            raise self._token().refuse("IS is followed by something else than [NOT] NULL, TRUE or FALSE", _ALLOWED)
        return Not(found) if negative else found

    def _sign(self) -> Sign | None:
        marks = [token.mark for token in self._found[self._place : self._place + 2]]
        for length in (2, 1):
            sign = _SIGNS.get("".join(marks[:length])) if len(marks) >= length and all(marks[:length]) else None
            if sign is not None:
                self._place += length
                return sign
        return None

    def _operand(self) -> Field | Constant:
        token = self._token()
        self._place += 1
        if token.kind is Kind.STRING:
            return Constant(token.text)
        if token.word in ("TRUE", "FALSE"):
            return Constant(token.word == "TRUE")
        if token.kind is Kind.NUMBER or token.mark in ("-", "+"):
            return Constant(self._number(token))
        if token.is_name and token.word not in _WORDS:
            return self._field(token)
        if token.word == "NULL":
            raise token.refuse("nothing is equal to NULL", "write IS NULL or IS NOT NULL")
        raise token.refuse(f"{token.text[:60]!r} stands where a field or a value should", _ALLOWED)

    def _field(self, token: Token) -> Field:
        path = [token.text]
        while self._takes("."):
            name = self._token()
            if not name.is_name:
                raise name.refuse("a name is missing behind the point", "write object.field")
            path.append(name.text)
            self._place += 1
        if (mark := self.next) is not None and mark.mark == "(":
            raise token.refuse(f"{token.text[:60]} is a function, and a delete is told by what fields hold", _ALLOWED)
        if len(path) > _DEEPEST:
            raise token.refuse(f"it is more than {_DEEPEST} levels deep", "write a field that is nearer")
        self.fields.add(path[0])
        return Field(tuple(path))

    def _number(self, token: Token) -> Value:
        digits = token
        if token.mark:
            digits = self._token()
            self._place += 1
        try:
            if digits.kind is not Kind.NUMBER or "_" in digits.text:
                raise InvalidOperation
            return Decimal(("-" if token.mark == "-" else "") + digits.text)
        except InvalidOperation:
            raise digits.refuse(f"{digits.text[:60]!r} is not a number", "write 5 or 0.5") from None

    def _token(self) -> Token:
        if self.next is None:
            last = self._found[-1]
            raise last.refuse(f"the condition ends behind {last.text[:60]!r}", _ALLOWED)
        return self.next

    def _takes(self, what: str) -> bool:
        token = self.next
        if token is not None and what in (token.word, token.mark):
            self._place += 1
            return True
        return False

    def _needs(self, what: str) -> None:
        if not self._takes(what):
            raise self._token().refuse(f"{what} is missing before {self._token().text[:60]!r}", _ALLOWED)
