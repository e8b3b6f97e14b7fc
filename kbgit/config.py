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
INHERITED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "TZ")
"""What a program that a server starts is given of its environment: nothing that it was told in confidence."""
SettingValue = str | int | float | bool
_T = TypeVar("_T")


def _setting(default: _T, help: str, minimum: float = 0, choices: tuple[str, ...] = ()) -> _T:
    """A row of the table; numbers must be at least `minimum`, texts one of `choices` where there are any."""
    row: _T = field(default=default, metadata={"help": help, "minimum": minimum, "choices": choices})
    return row


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a home. Sizes and times carry their unit in their name."""

    host: str = _setting("127.0.0.1", "Address the server listens on.")
    port: int = _setting(7420, "Port the server listens on; 0 lets the system choose.")
    public_url: str = _setting("", "How clients reach the server, if not http://HOST:PORT (behind a proxy, say).")
    allowed_hosts: str = _setting("", "Further names that requests may be addressed to, beside host and public_url.")
    trusted_proxy: str = _setting("", "Address of a proxy whose X-Forwarded-For is believed; empty: nobody's.")
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
    document_max_mb: int = _setting(50, "Largest document (PDF or office file) that can be uploaded.", 1)
    document_workers: int = _setting(
        1, "Documents extracted at once, each in a process of its own; 0: they only queue."
    )
    document_seconds: float = _setting(60.0, "Longest time the extraction of one document may take.", 0.1)
    document_memory_mb: int = _setting(1024, "Memory that the extraction of one document may use.", 192)
    document_queue_max: int = _setting(1000, "Documents that may wait for extraction; more are refused.", 1)
    document_keep_days: float = _setting(
        14.0, "How long the list keeps documents that are done, and the files of failed ones for another attempt.", 0.01
    )
    query_max_chars: int = _setting(8192, "Longest query text.", 1)
    response_max_kb: int = _setting(
        16384, "Largest search answer; contents beyond it are left out, and it says so.", 64
    )
    wait_for_max_seconds: float = _setting(30.0, "Longest time that wait_for may hold a search.")
    watch: str = _setting(
        "auto",
        "How pushes are noticed: auto (file events), poll (no file events), off (sweep only).",
        choices=("auto", "poll", "off"),
    )
    sweep_seconds: float = _setting(10.0, "How often every base is compared with its repository.", 0.05)
    session_hours: float = _setting(12.0, "Longest time a browser stays signed in.", 0.01)
    session_idle_minutes: float = _setting(120.0, "Time after which an unused browser session ends.", 0.05)
    git_timeout_seconds: float = _setting(120.0, "Longest time one Git command may take.", 1)
    rate_per_minute: int = _setting(12000, "Requests a minute that one caller may make in the long run; 0: any number.")
    rate_burst: int = _setting(12000, "Requests that one caller may make at once before rate_per_minute holds.", 1)
    failed_sign_ins_per_minute: int = _setting(
        300, "Wrong tokens and passwords a minute from one address before it must wait; 0: any number."
    )
    searches_at_once: int = _setting(24, "Searches over the API that run at once, and half of them for one caller.", 1)
    stop_seconds: float = _setting(5.0, "How long requests that run may go on when the server is told to stop.")
    disk_free_min_mb: int = _setting(256, "Free disk space below which the server reports itself degraded; 0: never.")
    lag_max_seconds: float = _setting(60.0, "Lag of an index behind its base beyond which the server is degraded.", 1)
    metrics_public: bool = _setting(False, "Let everybody read /metrics, not only administrators of the home.")
    metrics_base_names: bool = _setting(False, "Give each base's lag by its name in /metrics.")
    keep_hooks: bool = _setting(
        True, "Keep a process beside the server that answers Git's hooks without loading anything."
    )
    index_apart: bool = _setting(
        True, "Write the index in a process beside the server, so that searches do not wait for it."
    )
    log_level: str = _setting("info", "debug, info, warning or error.", choices=("debug", "info", "warning", "error"))

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
    choices: tuple[str, ...]


TABLE: tuple[SettingRow, ...] = tuple(
    SettingRow(row.name, cast(SettingValue, row.default), **row.metadata) for row in fields(Settings)
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
    if isinstance(value, str) and row.choices:
        value = value.strip().lower()
        if value not in row.choices:
            raise InvalidSetting(f"setting {name}: {value!r} is none of {', '.join(row.choices)}")
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
