"""What a monitoring system reads at `/metrics`, in the form of Prometheus.

Each server has a registry of its own. Labels are from fixed lists (routes as templates, error codes, modes), so that no
caller can make their number grow; names of bases, which tell what there is, are among them only if the setting
`metrics_base_names` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kbgit import __version__
from kbgit.assemble import Runtime
from kbgit.base import BaseStatus
from kbgit.errors import KbgitError
from kbgit.ranking import Mode
from kbgit.web.health import Health, Reason

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_SEARCH_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The metrics of one server. Methods may be called from any thread."""

    def __init__(self, runtime: Runtime, health: Health) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = Histogram(
            "kbgit_request_seconds",
            "How long requests took, by the template of their address and the class of their status.",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=self._registry,
        )
        self._searches = Histogram(
            "kbgit_search_seconds",
            "How long searches took, by the mode that was asked for and the one that answered.",
            ("mode", "mode_used"),
            buckets=_SEARCH_BUCKETS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "kbgit_refusals", "Requests that were refused or failed, by error code.", ("code",), registry=self._registry
        )
        self._limited = Counter(
            "kbgit_rate_limited", "Requests refused by a rate limit, by which.", ("kind",), registry=self._registry
        )
        self._pushes = Counter(
            "kbgit_pushes",
            "Refs that pushes through this server proposed, by transport and outcome.",
            ("transport", "outcome"),
            registry=self._registry,
        )
        for kind in ("requests", "failed_sign_ins"):
            self._limited.labels(kind)
        for outcome in ("accepted", "refused"):
            self._pushes.labels("http", outcome)
        ProcessCollector(registry=self._registry)
        self._registry.register(_State(runtime, health))

    def request(self, method: str, route: str, status: int, refusal: str, seconds: float) -> None:
        """Note a request that was answered."""
        shown = method if method in _METHODS else _OTHER
        group = f"{status // 100}xx" if status else "none"
        self._requests.labels(shown, route or _OTHER, group).observe(seconds)
        if refusal:
            self._refusals.labels(refusal if refusal in _codes() else _OTHER).inc()

    def search(self, mode: Mode, used: Mode, seconds: float) -> None:
        """Note a search."""
        self._searches.labels(mode.value, used.value).observe(seconds)

    def limited(self, kind: str) -> None:
        """Note a request that a rate limit refused."""
        self._limited.labels(kind).inc()

    def push(self, accepted: int, refused: int) -> None:
        """Note how many refs a push over HTTP moved, and how many it was refused."""
        self._pushes.labels("http", "accepted").inc(accepted)
        self._pushes.labels("http", "refused").inc(refused)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _State(Collector):
    """What is read when it is asked for: how far behind, how much there is."""

    def __init__(self, runtime: Runtime, health: Health) -> None:
        self._runtime = runtime
        self._health = health

    def collect(self) -> Iterable[Metric]:
        catalogue = self._runtime.catalogue
        yield _gauges("kbgit_build_info", "The version that runs; always 1.", "version", {__version__: 1})
        found = set(self._health.reasons())
        held = {reason.value: float(reason in found) for reason in Reason}
        yield _gauges("kbgit_degraded", "1 where the server is degraded for this reason.", "reason", held)
        yield from self._bases()
        waiting = self._runtime.waiting_notices
        yield _gauge("kbgit_index_notices_waiting", "Bases that moved and are not looked at yet.", waiting)
        yield _gauge("kbgit_admission_problems", "Problems of files in bases.", catalogue.problem_count())
        ways = CounterMetricFamily("kbgit_publications", "Publications, by the way they came.", labels=("via",))
        for via, count in catalogue.publications_by_via().items():
            ways.add_metric((via,), count)
        yield ways
        documents = {state.value: count for state, count in self._runtime.documents.counts().items()}
        yield _gauges("kbgit_documents", "Uploaded documents, by state.", "state", documents)
        yield _gauge("kbgit_disk_free_bytes", "Free space beside the home.", self._health.disk_free_bytes())
        sizes = self._runtime.home.store_bytes()
        yield _gauges("kbgit_store_bytes", "Size of stores on disk, repositories left out.", "store", sizes)

    def _bases(self) -> Iterator[Metric]:
        rows = self._runtime.catalogue.bases()
        states = [self._runtime.indexer.state(str(row.key)) for row in rows]
        counts = {status.value: sum(row.settings.status is status for row in rows) for status in BaseStatus}
        yield _gauges("kbgit_bases", "Bases, by status.", "status", counts)
        yield _gauge("kbgit_bases_with_alarm", "Bases with an alarm.", sum(bool(row.alarm) for row in rows))
        lags = self._health.lags()
        yield _gauge("kbgit_bases_lagging", "Bases whose index is behind their published head.", len(lags))
        longest = max((lag.seconds for lag in lags), default=0.0)
        yield _gauge(
            "kbgit_freshness_lag_seconds", "How long the published head that waits longest has been waiting.", longest
        )
        if self._runtime.home.settings.metrics_base_names:
            of_bases = {str(row.key): 0.0 for row in rows} | {lag.key: lag.seconds for lag in lags}
            yield _gauges("kbgit_base_freshness_lag_seconds", "The same of each base.", "base", of_bases)
        yield _gauge("kbgit_indexed_items", "Items in the index.", sum(state.items for state in states))
        passages = sum(state.passages for state in states)
        vectors = sum(state.vectors for state in states)
        yield _gauge("kbgit_indexed_passages", "Passages in the index.", passages)
        yield _gauge("kbgit_indexed_vectors", "Passages that have their vector.", vectors)
        missing = passages - vectors if self._runtime.embedder is not None else 0
        yield _gauge("kbgit_vectors_missing", "Passages that wait for their vector.", missing)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def _gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    found = GaugeMetricFamily(name, help, labels=(label,))
    for of, value in values.items():
        found.add_metric((of,), value)
    return found


def _codes() -> frozenset[str]:
    """Every code there is: whatever class a module adds, its codes are as many as its classes."""
    found: set[str] = set()
    classes: list[type[KbgitError]] = [KbgitError]
    while classes:
        error = classes.pop()
        found.add(error.code)
        classes += error.__subclasses__()
    return frozenset(found)
