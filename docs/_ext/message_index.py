"""The index of error messages: every sentence that the code raises, read from its source, by room and class."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import npga
from npga import errors

PACKAGE = Path(npga.__file__).parent


def error_names() -> set[str]:
    """Names of all exception classes that are made on purpose, wherever they are defined."""
    found = {name for name, item in vars(errors).items() if inspect.isclass(item) and issubclass(item, Exception)}
    while True:
        more = set()
        for path in PACKAGE.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") in found for base in node.bases):
                    more.add(node.name)
        if more <= found:
            return found
        found |= more


def messages() -> dict[str, list[tuple[str, str]]]:
    """Error class and sentence by room, as they are written; what is filled in stands in braces."""
    known, found = error_names(), {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node, owner in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name == "__init__":  # an error that words its own sentence
                name = owner
            if name == "error":  # its class is an argument, for errors about arrays of whatever owner
                name = "InputError"
            sentence = max(map(_sentence, node.args), key=len, default="").rstrip(" :\n")
            if name in known and " " in sentence:
                found.setdefault(room, []).append((name, sentence))
    return {room: sorted(set(rows), key=lambda row: row[1].lower()) for room, rows in found.items()}


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call of a module, with the name of the class that it is in."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    inside = {id(part): node.name for node in classes for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, inside.get(id(node), "")


def _sentence(node: ast.expr) -> str:
    """The text of a string, an f-string or a sum of them, with the source of what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_sentence(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _filled(node.value)
    if isinstance(node, ast.BinOp):
        return _sentence(node.left) + _sentence(node.right)
    return ""


def _filled(node: ast.expr) -> str:
    """What is filled in, as far as it has a name that says something."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "nearest":
        return "did you mean {...}?"
    name = getattr(node, "id", getattr(node, "attr", "_"))
    return "{...}" if name.startswith("_") else "{" + name + "}"


def write_page(app: Any) -> None:
    """Sphinx's hook at the beginning."""
    lines = [
        "# Error messages",
        "Every sentence that npga raises on purpose, in alphabetical order for each part of the library; search the "
        "page for words of your message. What stands in braces is filled in. All of them derive from "
        "{py:obj}`npga.errors.NpgaError`; most say what arrived, what was expected and what to do. A run that ends "
        "without an answer raises nothing: `result.message` says what to try, and [what to do when it does not "
        "converge](../howto/not-converging.md) goes further.",
    ]
    for room, rows in messages().items():
        lines.append(f"## npga.{room}")
        lines.append("\n".join(f"- `{_code(sentence)}` ({name})" for name, sentence in rows))
    path = Path(app.srcdir) / "api" / "messages.md"
    path.parent.mkdir(exist_ok=True)
    text = "\n\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _code(sentence: str) -> str:
    return sentence.replace("`", "'").replace("\n", " ")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_page, priority=200)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
