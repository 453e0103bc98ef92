"""Reads as much C++ as the checks need: tokens, includes, and where functions begin and end.

It is no parser. Braces are matched, and the tokens before an opening brace tell whether it opens
a namespace, a type, a function or an initialiser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //(?:[^\\\n]|\\.)* | /\*.*?\*/)
  | (?P<directive>\#(?:/\*.*?\*/|\\.|[^\\\n])*)
  | (?P<string>(?:u8|[uUL])?R"(?P<ends>[^()\\\s]{0,16})\(.*?\)(?P=ends)"
             | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
             | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?[0-9](?:'?[0-9A-Za-z_.])*)
  | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<mark>::|->|<<=|<=>|<=|>=|==|!=|\S)
    """,
    re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'#\s*include\s*(?:"(?P<own>[^"]+)"|<(?P<system>[^>]+)>)')


class Unreadable(Exception):
    """Braces do not match; the message says where."""


@dataclass(frozen=True)
class Token:
    """A word, number, string, mark or directive."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Include:
    """An #include: `path` as it is written, `quoted` if not in angle brackets."""

    path: str
    quoted: bool
    line: int


@dataclass(frozen=True)
class Function:
    """A function with its lines, from the first of its declaration to its closing brace."""

    name: str
    first_line: int
    last_line: int

    @property
    def n_lines(self) -> int:
        """How long it is."""
        return self.last_line - self.first_line + 1


def tokens(text: str) -> Iterator[Token]:
    """All but comments and spaces. A directive is one token."""
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "ends" else "string"
        if kind != "space":
            yield Token(str(kind), match.group(), line)
        line += match.group().count("\n")


def includes(text: str) -> list[Include]:
    """The includes of a file, in their order."""
    found = []
    for token in tokens(text):
        if token.kind == "directive" and (match := _INCLUDE.match(token.text)):
            own = match["own"]
            found.append(Include(own or match["system"], own is not None, token.line))
    return found


def functions(text: str) -> list[Function]:
    """The functions that are defined in a file; lambdas and local classes count as their parts."""
    reader = _Reader()
    for token in tokens(text):
        reader.take(token)
    return reader.end()


@dataclass
class _Block:
    """An open brace."""

    kind: str  # namespace, type, function, other
    line: int
    function: tuple[str, int] | None = None  # name and first line
    # The tokens before an initialiser: the declaration goes on after it.
    before: list[Token] = field(default_factory=list)


@dataclass
class _Reader:
    """The blocks that are open, and the tokens since the last statement ended."""

    blocks: list[_Block] = field(default_factory=list)
    head: list[Token] = field(default_factory=list)
    # The blocks that were open at each #if: each branch of it begins with them.
    branches: list[list[_Block]] = field(default_factory=list)
    found: list[Function] = field(default_factory=list)

    def take(self, token: Token) -> None:
        """The next token."""
        if token.kind == "directive":
            self._directive(token.text)
        elif token.text == "{" and token.kind == "mark":
            self._open(token)
        elif token.text == "}" and token.kind == "mark":
            self._close(token)
        elif token.text == ";" and _depth(self.head) <= 0:
            self.head.clear()
        elif token.text == ":" and self._is_label():
            self.head.clear()
        else:
            self.head.append(token)

    def end(self) -> list[Function]:
        """All functions, once the file has been read."""
        if self.blocks:
            raise Unreadable(f"the brace of line {self.blocks[-1].line} is not closed")
        return self.found

    def _is_label(self) -> bool:
        return len(self.head) == 1 and self.head[0].text in ("public", "private", "protected")

    def _directive(self, text: str) -> None:
        word = text[1:].split(None, 1)[0] if text[1:].strip() else ""
        if word.startswith("if"):
            self.branches.append(list(self.blocks))
        elif word.startswith(("else", "elif")) and self.branches:
            self.blocks = list(self.branches[-1])
        elif word.startswith("endif") and self.branches:
            self.branches.pop()

    def _inside(self) -> str:
        return self.blocks[-1].kind if self.blocks else "namespace"

    def _open(self, token: Token) -> None:
        block = _Block("other", token.line)
        if self._inside() in ("namespace", "type"):
            block.kind = kind_of(self.head)
            if block.kind == "function":
                block.function = (_name(self.head), self.head[0].line)
        if block.kind == "initialiser":
            block.before = self.head
        self.blocks.append(block)
        self.head = []

    def _close(self, token: Token) -> None:
        if not self.blocks:
            raise Unreadable(f"the brace of line {token.line} was not opened")
        block = self.blocks.pop()
        if block.function is not None:
            self.found.append(Function(*block.function, token.line))
        self.head = [*block.before, token] if block.kind == "initialiser" else []


def _depth(head: list[Token]) -> int:
    marks = [token.text for token in head if token.kind == "mark"]
    return marks.count("(") - marks.count(")")


def _without_template(head: list[Token]) -> list[Token]:
    """Leaves out `template <…>`, once or more, at the beginning."""
    while head and head[0].text == "template":
        depth = 0
        for at, token in enumerate(head):
            depth += {"<": 1, ">": -1}.get(token.text, 0)
            if token.text == ">" and depth == 0:
                head = head[at + 1 :]
                break
        else:
            return []
    return head


def _outer(head: list[Token]) -> list[str]:
    """The words and marks outside parentheses; each pair of them is "()"."""
    words: list[str] = []
    depth = 0
    for token in head:
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
            if depth == 0:
                words.append("()")
        elif depth == 0:
            words.append(token.text if token.kind != "string" else '""')
    return words


# Tokens that may stand between the parameters of a function and its body.
_QUALIFIERS = frozenset({"const", "noexcept", "override", "final", "volatile", "&", "()", "}", "]"})


def kind_of(head: list[Token]) -> str:
    """Tells what a brace opens after these tokens, in a namespace or type."""
    words = _outer(_without_template(head))
    if _depth(head) > 0:
        return "initialiser"
    if not words:
        return "other"
    if "namespace" in words or (words[0] == "extern" and words[-1] == '""'):
        return "namespace"
    if words[0] in ("class", "struct", "union", "enum") and not _returns_type(words):
        return "type"
    if "operator" in words:
        return "function"
    if "=" in words:
        value = words[words.index("=") :]
        return "function" if "[" in value and "()" in value else "initialiser"
    if "()" not in words:
        return "initialiser"
    after = words[words.index("()") :]
    ends_declaration = words[-1] in _QUALIFIERS or "->" in after or "requires" in after
    return "function" if ends_declaration else "initialiser"


def _returns_type(words: list[str]) -> bool:
    """Whether `struct a b()` is a function, and no type with attributes or bases."""
    before = words[: words.index(":")] if ":" in words else words
    return any(word == "()" and before[at - 1] != "alignas" for at, word in enumerate(before))


def _name(head: list[Token]) -> str:
    """The name before the first parenthesis; of a test, also what is in it."""
    head = _without_template(head)
    texts = [token.text for token in head]
    if texts and texts[0] == "requires" and ")" in texts:
        head = head[texts.index(")") + 1 :]
        texts = [token.text for token in head]
    if "operator" in texts:
        first = texts.index("operator")
        at = texts.index("(", first + 2)
    else:
        first = at = texts.index("(") if "(" in texts else len(texts)
    while first > 0 and (head[first - 1].kind == "word" or texts[first - 1] in ("::", "~")):
        if first < at and head[first - 1].kind == head[first].kind == "word":
            break
        first -= 1
    name = "".join(texts[first:at])
    if name.startswith(("TEST", "TYPED_TEST")) and ")" in texts:
        name += "".join(texts[at : texts.index(")") + 1]).replace(",", ", ")
    return name or "a function"
