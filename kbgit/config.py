"""Settings: one table of name, kind, default and help. Values only; entry points read files and environment.

`Settings` is the single source: `kbgit init` writes it out commented, and the documentation is tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from kbgit.errors import InvalidSetting

FILE_NAME = "kbgit.yaml"
ENVIRONMENT_PREFIX = "KBGIT_"
SettingValue = str | int | float | bool
_T = TypeVar("_T")


def _setting(default: _T, help: str, minimum: float = 0) -> _T:
    """A row of the table; numbers must be at least `minimum`."""
    row: _T = field(default=default, metadata={"help": help, "minimum": minimum})
    return row


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a home. Sizes and times carry their unit in their name."""

    host: str = _setting("127.0.0.1", "Address the server listens on.")
    port: int = _setting(7420, "Port the server listens on; 0 lets the system choose.")
    public_url: str = _setting("", "How clients reach the server, if not http://HOST:PORT (behind a proxy, say).")
    knowledge_enabled: bool = _setting(True, "Answer knowledge requests; off, they get 503 knowledge_runtime_disabled.")
    recall_knowledge: bool = _setting(
        True,
        "Let recall look in knowledge beside memory, where the request, the token and the client's profile allow it.",
    )
    embedder: str = _setting(
        "e5-small", "Semantic model: e5-small, e5-small-int8, fast, onnx:DIRECTORY, openai:URL#MODEL, hashing or none."
    )
    embedding_threads: int = _setting(2, "Processor threads of background embedding; a query uses one.", 1)
    vector_memory_mb: int = _setting(1024, "Vectors kept in memory for exact search; beyond it, approximate search.")
    postings_memory_mb: int = _setting(256, "Decoded postings kept in memory.", 1)
    item_max_kb: int = _setting(1024, "Largest Markdown file that can be an item.", 1)
    file_max_mb: int = _setting(32, "Largest other file in a push.", 1)
    push_max_mb: int = _setting(512, "Largest push over HTTP, after decompression.", 1)
    body_max_kb: int = _setting(2048, "Largest API request body, after decompression.", 1)
    query_max_chars: int = _setting(8192, "Longest query text.", 1)
    response_max_kb: int = _setting(
        16384, "Largest search answer; contents beyond it are left out, and it says so.", 64
    )
    wait_for_max_seconds: float = _setting(30.0, "Longest time that wait_for may hold a search.")
    watch: str = _setting(
        "auto", "How pushes are noticed: auto (file events), poll (no file events), off (sweep only)."
    )
    sweep_seconds: float = _setting(10.0, "How often every base is compared with its repository.", 0.05)
    git_timeout_seconds: float = _setting(120.0, "Longest time one Git command may take.", 1)
    log_level: str = _setting("info", "debug, info, warning or error.")

    def overlaid(self, values: Mapping[str, object]) -> Settings:
        """These settings with `values` over them; texts are converted. Raises `InvalidSetting`."""
        parsed: dict[str, Any] = {name: _parsed(name, value) for name, value in values.items()}
        return replace(self, **parsed)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One row of the table, as documentation and `kbgit settings` show it."""

    name: str
    default: SettingValue
    help: str
    minimum: float


TABLE: tuple[SettingRow, ...] = tuple(
    SettingRow(row.name, cast(SettingValue, row.default), row.metadata["help"], row.metadata["minimum"])
    for row in fields(Settings)
)
_BY_NAME = {row.name: row for row in TABLE}
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _parsed(name: str, value: object) -> SettingValue:
    row = _BY_NAME.get(name)
    if row is None:
        raise InvalidSetting(f"no setting is called {name!r}; `kbgit settings` lists them")
    kind = type(row.default)
    if isinstance(value, str) and kind is bool:
        value = _TRUTHS.get(value.strip().lower(), value)
    elif isinstance(value, str) and kind in (int, float):
        try:
            value = kind(value.strip())
        except ValueError:
            raise InvalidSetting(f"setting {name}: {value!r} is not a number") from None
    elif kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidSetting(f"setting {name}: {value!r} is not of the kind {kind.__name__}")
    if isinstance(value, int | float) and kind is not bool and not value >= row.minimum:
        raise InvalidSetting(f"setting {name}: {value!r} is below {row.minimum:g}")
    return value


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings given as KBGIT_<NAME> in `environment`; other variables are no settings and are left out."""
    names = {ENVIRONMENT_PREFIX + name.upper(): name for name in _BY_NAME}
    return {names[variable]: value for variable, value in environment.items() if variable in names}


def as_yaml() -> str:
    """The table as a settings file in which every line is a comment showing its default."""
    lines = ["# Settings of this kbgit home. Uncomment a line to change it, then restart the server.", ""]
    for row in TABLE:
        default = str(row.default).lower() if isinstance(row.default, bool) else str(row.default) or '""'
        lines += [f"# {row.help}", f"#{row.name}: {default}", ""]
    return "\n".join(lines)
