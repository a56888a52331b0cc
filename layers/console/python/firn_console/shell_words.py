"""Commands as text that a person pastes into a terminal. A name in it may be anybody's: a source's table may be called
`x; rm -rf ~`, or hold the end of a bracketed paste.

Sources: POSIX.1-2017, Shell Command Language, section 2.2 (quoting); Bash manual, "ANSI-C Quoting", which zsh has too.
"""

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def command(*words: str) -> str:
    """`words` as one line for a shell: each stays one word, whatever it holds."""
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    # Control characters would act on the terminal, and others (bidirectional marks) on what a person reads.
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(one: str) -> str:
    if one.isprintable() and one not in "\\'":  # dash, which has no such quotes, would end the word at \'
        return one
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
