"""Settings: one table of name, kind, default and help. Values only; entry points read files and environment.

`SETTINGS` is the single source: `kbgit init` writes it out commented, the documentation is tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbgit.errors import InvalidSetting

FILE_NAME = "kbgit.yaml"
ENVIRONMENT_PREFIX = "KBGIT_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `kind` is the type of `default`; whole numbers and fractions must be ≥ `minimum`."""

    name: str
    default: str | int | float | bool
    help: str
    minimum: float = 0

    @property
    def kind(self) -> type:
        """The Python type of a valid value."""
        return type(self.default)

    def parse(self, value: Any) -> Any:
        """`value` as this setting's kind; texts (from the environment) are converted. Raises `InvalidSetting`."""
        if isinstance(value, str) and self.kind is not str:
            value = self._from_text(value)
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not self.kind:
            raise InvalidSetting(f"setting {self.name}: {value!r} is not a {self.kind.__name__}")
        if self.kind in (int, float) and value < self.minimum:
            raise InvalidSetting(f"setting {self.name}: {value!r} is below {self.minimum:g}")
        return value

    def _from_text(self, text: str) -> Any:
        if self.kind is bool:
            words = {"true": True, "yes": True, "on": True, "1": True}
            words |= {"false": False, "no": False, "off": False, "0": False}
            return words.get(text.strip().lower(), text)
        try:
            return self.kind(text.strip())
        except ValueError:
            return text


SETTINGS: tuple[Setting, ...] = (
    Setting("host", "127.0.0.1", "Address the server listens on."),
    Setting("port", 7420, "Port the server listens on; 0 lets the system choose."),
    Setting("public_url", "", "How clients reach the server, if not http://HOST:PORT (behind a proxy, say)."),
    Setting("knowledge_enabled", True, "Answer knowledge requests; off, they get 503 knowledge_runtime_disabled."),
    Setting(
        "embedder",
        "e5-small",
        "Model of the semantic leg: e5-small, e5-small-int8, fast, onnx:DIRECTORY, openai:URL#MODEL, or none.",
    ),
    Setting("embedding_threads", 2, "Processor threads for background embedding; queries use one.", minimum=1),
    Setting("vector_memory_mb", 1024, "Vectors kept in memory for exact search; beyond it, approximate search."),
    Setting("postings_memory_mb", 256, "Decoded postings kept in memory."),
    Setting("item_max_kb", 1024, "Largest Markdown file that can be an item.", minimum=1),
    Setting("file_max_mb", 32, "Largest other file in a push.", minimum=1),
    Setting("push_max_mb", 512, "Largest push over HTTP, after decompression.", minimum=1),
    Setting("body_max_kb", 2048, "Largest API request body, after decompression.", minimum=1),
    Setting("query_max_chars", 8192, "Longest query text.", minimum=1),
    Setting("response_max_kb", 16384, "Largest answer; a search with content full that exceeds it is cut and says so."),
    Setting("wait_for_max_seconds", 30.0, "Longest time that wait_for may hold a search."),
    Setting("watch", "auto", "How pushes are noticed: auto (file events), poll (no file events), off (sweep only)."),
    Setting("sweep_seconds", 10.0, "How often every base is compared with its repository, whatever events said.", 0.1),
    Setting("git_timeout_seconds", 120.0, "Longest time one Git command may take.", 1),
    Setting("log_level", "info", "debug, info, warning or error."),
)

_BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}


class Settings:
    """Frozen settings: the table's defaults, overlaid with given values. `settings["port"]` or `settings.port`."""

    __slots__ = ("_values",)
    _values: dict[str, Any]

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        resolved = {setting.name: setting.default for setting in SETTINGS}
        for name, value in (values or {}).items():
            if name not in _BY_NAME:
                raise InvalidSetting(f"no setting is called {name!r}; the table is in docs/settings.md")
            resolved[name] = _BY_NAME[name].parse(value)
        object.__setattr__(self, "_values", resolved)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("settings are frozen; use overlaid()")

    def overlaid(self, values: Mapping[str, Any]) -> Settings:
        """These settings with `values` over them."""
        return Settings({**self._values, **values})

    def as_mapping(self) -> dict[str, Any]:
        """A copy as a plain mapping."""
        return dict(self._values)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings named in `environment` as KBGIT_<NAME>; other variables are not settings and are left out."""
    found = {}
    for name in _BY_NAME:
        value = environment.get(ENVIRONMENT_PREFIX + name.upper())
        if value is not None:
            found[name] = value
    return found


def as_yaml() -> str:
    """The table as a settings file in which every line is a comment with its default."""
    lines = ["# Settings of this kbgit home. Uncomment a line to change it; restart the server afterwards.", ""]
    for setting in SETTINGS:
        value = str(setting.default).lower() if setting.kind is bool else str(setting.default)
        lines += [f"# {setting.help}", f"#{setting.name}: {value or '""'}", ""]
    return "\n".join(lines)
