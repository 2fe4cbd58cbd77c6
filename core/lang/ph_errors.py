"""What to tell a user whose `.ph` text does not parse."""

from __future__ import annotations

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


def _span(source: Source, token: Token) -> Span:
    line, column = token.line or 1, token.column or 1
    width = max(len(token.value.strip()), 1)
    return Span(source, line, column, line, column + width)


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
    if token.type == "$END" or (token.type == "_T" and not token.value.strip()):
        return _early_end(source, token, expected)
    previous = problem.token_history[-1] if problem.token_history else None
    text = token.value if token.value.strip() else "end of line"
    message = f"unexpected `{text}`"
    if token.value in KEYWORDS and "NAME" in expected:
        message, hint = f"`{token.value}` is a keyword", "choose another name"
    else:
        hint = _hint(token, previous, expected)
    return KernelError(message, _span(source, token), hint)


def _early_end(source: Source, token: Token, expected: set[str]) -> KernelError:
    """The end of a line or of the file where more was needed."""
    line = token.line or len(source.text.splitlines()) or 1
    column = token.column or 1
    if token.type == "$END":
        lines = source.text.rstrip().splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
        hint = "close the block with `}`" if "RBRACE" in expected else _expectation(expected)
        return KernelError("the file ends too early", Span(source, line, column, line, column + 1), hint)
    hint = _expectation(expected)
    if "LBRACE" in expected:
        hint = "the `{` of a block stands on the line of its head"
    return KernelError("the line ends too early", Span(source, line, column, line, column + 1), hint)


def _hint(token: Token, previous: Token | None, expected: set[str]) -> str:
    if token.value == "else":
        return "`else` stands on the line of the `}` before it, and follows an if"
    for word in (token.value, previous.value if previous is not None else ""):
        if word in _OTHER_LANGUAGES:
            return _OTHER_LANGUAGES[word]
    if previous is not None and previous.type == "INT" and token.type == "NAME":
        return "integers are decimal digits only"
    if previous is not None and previous.value == ":" and token.value == "]":
        return "a slice says how long it is: A[i :+ n], A[i : j] or A[:]"
    if previous is not None and previous.value == "*" and token.value == "*":
        return "there is no power operator: write x * x, or pow(x, y)"
    if token.type == "AOP" or token.value == "=":
        return "an assignment is a statement of its own; compare with =="
    return _expectation(expected)


def _expectation(expected: set[str]) -> str:
    if {"INT", "LPAR", "MINUS"} <= expected:
        return "an expression is expected here"
    words = [_WORDS[name] for name in _WORDS if name in expected]
    if not words:
        return "check the statement before this place"
    return f"expected {' or '.join(words[:3])}" if len(words) <= 3 else "the statement before this is not finished"
