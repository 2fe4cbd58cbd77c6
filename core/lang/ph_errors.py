"""What to tell a user whose `.ph` text does not parse."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from ..errors import KernelError, Source, Span
from .builtins import KEYWORDS

_WORDS = {
    "_T": "the end of the statement", "LBRACE": "`{`", "RBRACE": "`}`", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`",
    "RSQB": "`]`", "COMMA": "`,`", "COLON": "`:`", "EQUAL": "`=`", "NAME": "a name", "INT": "an integer", "IN": "`in`",
    "AT": "`@`", "KERNEL": "`kernel`", "FN": "`fn`", "ARROW": "`->`",
}  # fmt: skip
_OTHER_LANGUAGES = {
    "def": "a kernel begins with `kernel name(...) {`, a function with `fn name(...) {`",
    "elif": "write `else if`",
    "and": "write `&&`",
    "or": "write `||`",
    "not": "write `!`",
    "func": "a function begins with `fn`",
    "const": "write `let`",
    "int": "write `let` or `var`",
    "float": "write `let` or `var`",
    "import": "a .ph source imports nothing",
}
_CHARACTERS = {
    "#": "comments begin with //",
    "'": "there are no strings",
    '"': "there are no strings",
    "`": "there are no backquotes",
    "?": "choose with where(c, a, b), or an if statement",
    "\\": "a line may break after an operator, a comma or an opening bracket",
    "$": "names have letters, digits and _",
}
_TOKEN = re.compile(r"//[^\n]*|\w+|:\+|\*\*|[^\w\s]")


def _span(source: Source, token: Token) -> Span:
    line, column = token.line or 1, token.column or 1
    width = max(len(token.value.strip()), 1)
    return Span(source, line, column, line, column + width)


def _at(source: Source, offset: int, width: int = 1) -> Span:
    """The place of a character offset."""
    before = source.text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
    return Span(source, line, column, line, column + width)


def _before(source: Source, offset: int) -> list[re.Match[str]]:
    """Words and signs before an offset, comments left out."""
    return [m for m in _TOKEN.finditer(source.text[:offset]) if not m.group().startswith("//")]


def unexpected_character(source: Source, problem: UnexpectedCharacters) -> KernelError:
    """A character that begins no token."""
    line, column = problem.line, problem.column
    char = source.line(line)[column - 1 : column]
    hint = _CHARACTERS.get(char, "remove it")
    return KernelError(f"unexpected character {char!r}", Span(source, line, column, line, column + 1), hint)


def unexpected_token(source: Source, problem: UnexpectedToken) -> KernelError:
    """A token that cannot stand where it does."""
    token = problem.token
    expected = set(problem.accepts or problem.expected)
    at_end = token.type == "$END"
    before = _before(source, len(source.text) if at_end else token.start_pos or 0)
    unclosed = _unclosed(source, before, token.line if not at_end else None)
    if unclosed is not None:
        return unclosed
    if at_end or token.type == "_T":
        return _early_end(source, token, expected, before)
    previous = before[-1] if before else None
    if _wants_expression(expected) and previous is not None and "\n" in source.text[previous.end() : token.start_pos]:
        place = _at(source, previous.end())
        return KernelError("the line ends too early", place, "an expression is expected here")
    hint = _hint(token, previous.group() if previous else "", expected)
    if token.value in KEYWORDS and "NAME" in expected and token.value != "else":
        return KernelError(f"`{token.value}` is a keyword", _span(source, token), "choose another name")
    return KernelError(f"unexpected `{token.value}`", _span(source, token), hint)


def _unclosed(source: Source, before: list[re.Match[str]], line: int | None) -> KernelError | None:
    """An error at a ( or [ of an earlier line that nothing closed; newlines inside brackets end no statement."""
    open_: list[re.Match[str]] = []
    for match in before:
        if match.group() in "([{":
            open_.append(match)
        elif match.group() in ")]}" and open_:
            open_.pop()
    if not open_ or open_[-1].group() == "{":
        return None
    place = _at(source, open_[-1].start())
    if line is not None and place.line == line:
        return None
    return KernelError(f"`{open_[-1].group()}` is not closed", place, "close it, or leave it out")


def _early_end(source: Source, token: Token, expected: set[str], before: list[re.Match[str]]) -> KernelError:
    """The end of a line or of the file where more was needed."""
    if token.type == "$END":
        place = _at(source, before[-1].end() if before else 0)
        opening = next((m for m in before[::-1] if m.group() == "{"), None)
        hint = _expectation(expected)
        if "RBRACE" in expected and opening is not None:
            hint = "close the block with `}`"
        return KernelError("the file ends too early", place, hint)
    if token.value == ";":
        return KernelError("unexpected `;`", _span(source, token), _expectation(expected))
    line, column = token.line or 1, token.column or 1
    hint = _expectation(expected)
    if "LBRACE" in expected:
        hint = "the `{` of a block stands on the line of its head"
    return KernelError("the line ends too early", Span(source, line, column, line, column + 1), hint)


def _hint(token: Token, previous: str, expected: set[str]) -> str:
    value = token.value
    if value == "else":
        return "`else` stands on the line of the `}` before it, and follows an if"
    for word in (value, previous):
        if word in _OTHER_LANGUAGES:
            return _OTHER_LANGUAGES[word]
    if "KERNEL" in expected:
        return "statements stand inside a kernel or a function: kernel name(...) { ... }"
    if previous.isdigit() and token.type == "NAME":
        return "integers are decimal digits only"
    if previous == ":" and value == "]":
        return "a slice says how long it is: A[i :+ n], A[i : j] or A[:]"
    if previous == "*" and value == "*":
        return "there is no power operator: write x * x, or pow(x, y)"
    if token.type == "AOP" or value == "=":
        return "an assignment is a statement of its own; compare with =="
    if value == "(":
        return "only a name can be called: f(x)"
    if token.type in ("NAME", "INT", "FLOAT") and "_T" in expected:
        return "an operator is missing before it, or a line break"
    if expected == {"LPAR"}:
        return "a loop runs over a range: for i in range(0, n) {"
    return _expectation(expected)


def _wants_expression(expected: set[str]) -> bool:
    return {"INT", "LPAR", "MINUS"} <= expected and "_T" not in expected


def _expectation(expected: set[str]) -> str:
    if _wants_expression(expected):
        return "an expression is expected here"
    words = [_WORDS[name] for name in _WORDS if name in expected]
    if not words:
        return "check the statement before this place"
    return f"expected {' or '.join(words[:3])}" if len(words) <= 3 else "the statement before this is not finished"
