"""How the code hangs together: each module imports only from its own layer and those before it, without cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kbgit"
# Values read and write nothing; truth is Git and what is derived from it by exact rules; surfaces parse, call and render.
LAYERS = {
    "values": [
        *(
            "errors",
            "frontmatter",
            "header_edit",
            "item",
            "revision",
            "citation",
            "access",
            "config",
            "names",
            "base",
            "place",
        ),
    ],
    "truth": [
        *("sqlite", "store", "admission", "rows", "catalogue", "accounts", "history", "publish", "receipt", "home"),
        "sessions",
    ],
    "derived": ["passage", "analysis", "index", "ranking", "embedding", "rebuilding", "indexer", "watch"],
    "use": ["library", "memory", "importing", "documents", "assemble", "upkeep"],
    "surfaces": ["cli", "web", "mcp", "hook", "hook_keeper", "demo"],
}
LAYER_OF = {module: number for number, modules in enumerate(LAYERS.values()) for module in modules}
LONGEST_FILE = 500
# Imports inside functions: each entry gives the reason.
LATE_IMPORTS = {
    "store/repository.py": "dulwich takes longer to load than most hooks take, and only long-lived processes read with it",
    "embedding/e5.py": "onnx takes a second too, and only writing a model, which happens once, needs it",
    "web/mcp_http.py": "the SDK of MCP takes more than a second, and many servers are never asked by an agent",
    "index/chroma.py": "chromadb takes a second and hundreds of megabytes, and hooks and most commands never open it",
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def name_of(path: Path) -> str:
    """`kbgit/index/lexical.py` → `index.lexical`; a package is named by its directory."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def names() -> frozenset[str]:
    return frozenset(name_of(path) for path in modules())


def imports(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """(statement, module of kbgit that it names) of every import from kbgit."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("kbgit."):
                    yield node, alias.name.removeprefix("kbgit.")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kbgit":
            module = (node.module or "").removeprefix("kbgit").removeprefix(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".removeprefix(".")
                yield node, inner if inner in names() else module


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_every_module_has_a_layer_and_imports_only_from_it_and_those_before(path: Path) -> None:
    own = name_of(path).split(".")[0]
    assert own in LAYER_OF, f"name {own} in LAYERS"
    later = {name for _, name in imports(path) if name and LAYER_OF[name.split(".")[0]] > LAYER_OF[own]}
    assert not later


def test_no_import_is_relative() -> None:
    relative = [
        name_of(path)
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_modules_import_each_other_in_one_direction() -> None:
    graph = {name_of(path): {name for _, name in imports(path) if name} for path in modules()}
    finished: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"import cycle: {' → '.join([*way[way.index(module) :], module])}"
        if module not in finished:
            for imported in graph.get(module, set()):
                visit(imported, (*way, module))
            finished.add(module)

    for module in graph:
        visit(module, ())


def test_the_parts_of_a_layer_depend_on_each_other_in_one_direction() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules():
        part = name_of(path).split(".")[0]
        graph.setdefault(part, set()).update(name.split(".")[0] for _, name in imports(path) if name)
    for part in graph:
        graph[part].discard(part)
    while leaves := {part for part, needed in graph.items() if not needed & graph.keys()}:
        for part in leaves:
            del graph[part]
    assert not graph, "these need each other in a circle"


def importers_of(package: str) -> set[str]:
    found = set()
    for path in modules():
        for node in ast.walk(tree_of(path)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == package for name in named):
                found.add(name_of(path))
    return found


def _inside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node


def test_nothing_is_imported_inside_a_function_without_a_reason() -> None:
    late = {str(path.relative_to(PACKAGE)) for path in modules() if any(_inside_functions(tree_of(path)))}
    assert late == LATE_IMPORTS.keys()


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_FILE


def test_a_file_of_tests_can_be_read_in_one_sitting() -> None:
    long = {
        path.name for path in (ROOT / "tests").rglob("*.py") if len(path.read_text("utf-8").splitlines()) > LONGEST_FILE
    }
    assert long == set()


def test_git_is_touched_by_the_store_alone() -> None:
    assert {name.split(".")[0] for name in importers_of("dulwich")} == {"store"}
    # Besides it, only what serves Git's own HTTP backend, extracts documents in workers or runs other programs for a person.
    others = {"web", "documents", "cli", "demo"}
    assert {name.split(".")[0] for name in importers_of("subprocess")} <= {"store", "index", *others}
    assert {name for name in importers_of("subprocess") if name.startswith("index")} == {"index.apart"}


def test_only_entry_points_read_the_environment() -> None:
    readers = {
        name_of(path).split(".")[0]
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")
    }
    assert readers <= {"cli", "web", "mcp", "hook", "hook_keeper", "demo", "store"}, (
        "`store` hands the environment on to git, cleaned"
    )
