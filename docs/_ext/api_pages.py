"""One page for every public name, made from its docstring, and a check that docstring and signature agree.

`rooms` says what is public: the names in `npga.__all__` and in the `__all__` of each room. A name that several rooms
export has one page, under the shortest of its names. `complaints` lists what is wrong; the build and a test fail on it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from abc import ABC
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, get_origin

from numpydoc.docscrape import NumpyDocString
from sphinx.util.inspect import TypeAliasForwardRef, stringify_signature

# In reading order; errors and steps are modules, the others packages.
ROOMS = (
    "functions",
    "networks",
    "problem",
    "theory",
    "solver",
    "tuning",
    "runtimes",
    "experiments",
    "pages",
    "power",
    "errors",
)


def public_names() -> dict[str, dict[str, Any]]:
    """Public objects by module and name; each object once, at the top if `npga` itself has it."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[int] = set()
    for module in ("npga", *(f"npga.{room}" for room in ROOMS)):
        home = importlib.import_module(module)
        for name in sorted(exported(home)):
            item = getattr(home, name)
            if (inspect.isclass(item) or inspect.isroutine(item)) and id(item) not in seen:
                seen.add(id(item))
                found.setdefault(module, {})[name] = item
    return found


def exported(module: Any) -> list[str]:
    """`__all__`, or for a module without one the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, item in vars(module).items()
        if not name.startswith("_") and getattr(item, "__module__", None) == module.__name__ and callable(item)
    ]


def complaints() -> list[str]:
    """What is wrong with the docstrings of public names; empty when all is well."""
    found = []
    for module, items in public_names().items():
        for name, item in items.items():
            found += [f"{module}.{name}: {what}" for what in _complaints_about(item)]
    return found


def _complaints_about(item: Any) -> Iterator[str]:
    text = inspect.getdoc(item)
    if not text:
        yield "has no docstring"
        return
    documented, parameters = _documented(item), _parameters(item)
    if not documented or parameters is None:  # says what it is without listing parameters
        return
    own = _names(text)
    missing = [name for name in parameters if name not in documented]
    unknown = [name for name in own if name not in parameters]
    if missing:
        yield f"does not describe {', '.join(missing)}"
    if unknown:
        yield f"describes {', '.join(unknown)}, which its signature does not have"


def _documented(item: Any) -> list[str]:
    """Names in the section Parameters, "a, b" taken apart; what base classes describe counts too."""
    names = []
    for owner in inspect.getmro(item) if inspect.isclass(item) else (item,):
        text = inspect.cleandoc(vars(owner).get("__doc__") or "") if inspect.isclass(owner) else inspect.getdoc(owner)
        if text and getattr(owner, "__module__", "").startswith("npga"):
            names += _names(text)
    return names


def _names(text: str) -> list[str]:
    entries = [part.name or part.type for part in NumpyDocString(text)["Parameters"]]
    return [name.strip().lstrip("*") for entry in entries for name in entry.split(",")]


def _parameters(item: Any) -> list[str] | None:
    """Names of the signature; None where Python cannot tell, as for an enumeration."""
    try:
        signature = inspect.signature(item)
    except (TypeError, ValueError):
        return None
    kinds = signature.parameters.values()
    if inspect.isclass(item) and issubclass(item, BaseException):
        return None
    return [parameter.name for parameter in kinds if parameter.name not in ("self", "cls")]


def write_pages(folder: Path) -> None:
    """Write a page for every name and a list for every room; what did not change is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    lists = []
    for module, items in public_names().items():
        for name, item in items.items():
            written.add(_write(folder / f"{module}.{name}.rst", _page(module, name, item)))
        room = module.removeprefix("npga.") if module != "npga" else "top"
        written.add(_write(folder / f"{room}.rst", _room_page(module, items)))
        lists.append(room)
    for path in folder.glob("*.rst"):
        if path not in written:
            path.unlink()


def _write(path: Path, text: str) -> Path:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def _page(module: str, name: str, item: Any) -> str:
    title = f"npga.{name}" if module == "npga" else name  # short, for a phone; the signature has the whole name
    kind = "autoexception" if _is_error(item) else "autoclass" if inspect.isclass(item) else "autofunction"
    lines = [f"{title}\n{'=' * len(title)}", f".. currentmodule:: {module}", f".. {kind}:: {name}"]
    if kind == "autoclass":
        listed = issubclass(item, Enum) and not hasattr(item, "message")
        lines[-1] += "\n   :members:" + ("\n   :undoc-members:" if listed else "")
    if inspect.isclass(item) and _public_bases(item.__bases__):
        lines[-1] += "\n   :show-inheritance:"
    if kind == "autoclass" and issubclass(item, Enum) and hasattr(item, "message"):  # a sentence for each member
        lines.append("\n".join(f"- ``{title}.{member.name}``: {plain(member.message)}" for member in item))
    lines.append(f".. minigallery:: {module}.{name}\n   :add-heading: Used in")
    return "\n\n".join(lines) + "\n"


def _room_page(module: str, items: dict[str, Any]) -> str:
    title = "npga" if module == "npga" else module
    text = inspect.getdoc(importlib.import_module(module)) or ""
    first = text.split("\n\n")[0].replace("\n", " ")
    rows = "\n".join(f"   * - :py:obj:`~{module}.{name}`\n     - {_first_line(item)}" for name, item in items.items())
    names = "\n".join(f"   {name} <{module}.{name}>" for name in items)
    return (
        f"{title}\n{'=' * len(title)}\n\n{plain(first)}\n\n.. list-table::\n   :widths: 35 65\n\n{rows}\n\n"
        f".. toctree::\n   :hidden:\n\n{names}\n"
    )


def _first_line(item: Any) -> str:
    text = inspect.getdoc(item) or ""
    return plain(text.split("\n\n")[0].replace("\n", " "))


def _is_error(item: Any) -> bool:
    return inspect.isclass(item) and issubclass(item, BaseException)


_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
_NAME = re.compile(r"^\s*\*{1,2}\w+(\s*:.*)?$")


def plain(line: str) -> str:
    """A line of a docstring as reStructuredText that means just these characters.

    The docstrings hold formulas: |x| is a norm and not a substitution, x* a solution and not emphasis, x_ no link.
    """
    if _NAME.match(line) or line.lstrip().startswith((">>>", "...")):
        return line
    parts = _LITERAL.split(line)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([|*\\])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(\w)_(?!\w)", r"\1\\_", parts[k])
    return "".join(parts)


def escape_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx's hook on every docstring, before numpydoc reads it."""
    literal = False
    types = _types(obj)
    for k, line in enumerate(lines):
        if line.rstrip().endswith("::"):
            literal = True
        elif line.strip() and not line.startswith(" "):
            literal = False
        if not literal:
            lines[k] = plain(line) + _type_of_entry(lines, k, types)


def _types(item: Any) -> dict[str, str]:
    """What the signature says of each parameter, as a reader types it; nothing where it says nothing."""
    try:
        parameters = inspect.signature(item).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {parameter.name: shown(parameter.annotation) for parameter in parameters}


def shown(annotation: Any) -> str:
    """An annotation without the abbreviations of modules; empty for one that says nothing."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
    text = re.sub(r"^Annotated\[([^,]+),.*", r"\1", re.sub(r"\b(npt|np|nx)\.", "", text))
    return "" if text == "Any" else text.replace("PathLike[str]", "Path").replace("str | Path | Path", "str | Path")


def _type_of_entry(lines: list[str], k: int, types: dict[str, str]) -> str:
    """What follows the names of line k in the section Parameters, if they have no type there."""
    section = next((i for i in range(k, 0, -1) if re.fullmatch(r"-{3,}", lines[i].strip())), 0)
    if not lines[k].strip() or lines[k].startswith((" ", "-")) or ":" in lines[k] or not section:
        return ""
    if lines[section - 1].strip() != "Parameters" or (k + 1 < len(lines) and lines[k + 1].startswith("---")):
        return ""
    found = [types.get(name.strip().lstrip("*"), "") for name in lines[k].split(",")]
    return f" : {', '.join(dict.fromkeys(found))}" if all(found) else ""


def public_bases(app: Any, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    """Sphinx's hook on "Bases:": a class without a page stands for the first above it that has one."""
    bases[:] = _public_bases(bases)


def _public_bases(bases: Iterable[Any]) -> list[Any]:
    pages = [item for items in public_names().values() for item in items.values()]
    above = [
        next(owner for owner in inspect.getmro(base) if owner in pages or not owner.__module__.startswith("npga"))
        if inspect.isclass(base)
        else base
        for base in bases
    ]
    plain_ones = (object, ABC, Protocol, Generic)
    return [base for base in dict.fromkeys(above) if base not in plain_ones and get_origin(base) not in plain_ones]


def readable_signature(app: Any, what: str, name: str, obj: Any, *_: Any) -> tuple[str, str | None] | None:
    """Sphinx's hook on every signature: types stand in it where no section of the docstring has them.

    Protocols and enumerations have no signature, since nobody makes one by calling it.
    """
    if what == "class" and (getattr(obj, "_is_protocol", False) or issubclass(obj, Enum)):
        return "", None
    if what not in ("class", "function", "method"):
        return None
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return None
    text = inspect.getdoc(obj) or ""
    typed = "Parameters\n---" not in text
    parameters = [
        parameter.replace(
            annotation=(shown(parameter.annotation) if typed else "") or parameter.empty,
            default=_Made()
            if repr(parameter.default).startswith("<") and parameter.default is not parameter.empty
            else parameter.default,
        )
        for parameter in signature.parameters.values()
        if what != "method" or parameter.name not in ("self", "cls")
    ]
    returned = (
        "" if what == "class" or re.search(r"(Returns|Yields)\n---", text) else shown(signature.return_annotation)
    )
    return stringify_signature(
        signature.replace(parameters=parameters, return_annotation=signature.empty)
    ), returned or None


class _Made:
    """A default that is made or called, and has no text of its own."""

    def __repr__(self) -> str:
        return "..."


def skip_facts_of_the_base(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Sphinx's hook on every member: what each function repeats for its base class is no news on its page.

    Nor is a field of a named tuple, which its signature has.
    """
    if (getattr(obj, "__doc__", "") or "").startswith("Alias for field number"):
        return True
    return True if what == "class" and name in ("kind", "names") and isinstance(obj, str | tuple) else None


def build_pages(app: Any) -> None:
    """Sphinx's hook at the beginning: check, then write."""
    wrong = complaints()
    if wrong:
        raise SystemExit("public names whose docstrings are wrong:\n  " + "\n  ".join(wrong))
    write_pages(Path(app.srcdir) / "api")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # within list[...] Sphinx prints the object
    app.connect("builder-inited", build_pages, priority=100)
    app.connect("autodoc-process-docstring", escape_docstring, priority=100)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("autodoc-skip-member", skip_facts_of_the_base)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
