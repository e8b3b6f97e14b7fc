"""Bases made from repositories and directories."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kbgit.base import Admission, BaseKey, BaseSettings
from kbgit.catalogue import Catalogue
from kbgit.errors import AlreadyExists, GitFailure, InvalidRequest, KbgitError, PushRefused
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer, is_repository, settings_text
from kbgit.item import ItemStatus
from tests.writing import WRITER_ENVIRONMENT, Writer, clone, tables, text

BROKEN = "---\ntitle: a: b\n---\n"


@pytest.fixture
def source(tmp_path: Path) -> Writer:
    """A work tree with two commits on the branch `trunk`, which its HEAD names."""
    path = tmp_path / "source"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=trunk", path], env=WRITER_ENVIRONMENT, check=True)
    writer = Writer(path, "")
    writer.commit({"a.md": text("A"), "docs/b.md": text("B"), "theme/x.css": "x"})
    writer.commit({"a.md": text("A2")})
    return writer


@pytest.fixture
def told() -> list[str]:
    """What the importer said."""
    return []


@pytest.fixture
def importer(home: Home, catalogue: Catalogue, told: list[str]) -> Importer:
    return Importer(home, catalogue, "ada", told.append)


def bundle(source: Writer) -> str:
    source.git("bundle", "create", "--quiet", "../source.bundle", "HEAD", "trunk")
    return str(source.path.parent / "source.bundle")


def bundle_without_head(source: Writer) -> str:
    source.git("bundle", "create", "--quiet", "../source.bundle", "trunk")
    return str(source.path.parent / "source.bundle")


def bare(source: Writer) -> str:
    source.git("clone", "--quiet", "--bare", ".", "../bare.git")
    return str(source.path.parent / "bare.git")


def url(source: Writer) -> str:
    return f"file://{source.path}"


def detached(source: Writer) -> str:
    source.git("checkout", "--quiet", "--detach")
    return str(source.path)


SOURCES = [lambda source: str(source.path), bundle, bundle_without_head, bare, url, detached]


@pytest.mark.parametrize("make", SOURCES)
def test_a_repository_keeps_its_history_and_every_sha(
    importer: Importer, home: Home, catalogue: Catalogue, key: BaseKey, source: Writer, make: Callable[[Writer], str]
) -> None:
    address = make(source)
    assert is_repository(address)
    receipt = importer.from_repository(key, address, BaseOptions())
    repository = home.repository(key)
    assert repository.published_branch() == "refs/heads/trunk"
    assert repository.head() == receipt.base.head == source.head
    history = source.git("rev-list", "HEAD").split()
    rows = catalogue.revisions(str(key), "runbooks/a")
    assert [(row.sha, row.number) for row in rows] == [(history[0], 2), (history[1], 1)]
    assert {item.item_id for item in receipt.items} == {"runbooks/a", "runbooks/docs/b"}
    provenance = catalogue.provenance(str(key), history[1])
    assert provenance is not None
    assert (provenance.pushed_by, provenance.via) == ("ada", "import")
    writer = clone(repository.path, source.path.parent / "clone")
    writer.git("checkout", "--quiet", "trunk")
    writer.publish({"c.md": text("C")})
    assert len(catalogue.items(str(key))) == 3


def test_options_become_one_commit_on_top(
    importer: Importer, home: Home, catalogue: Catalogue, key: BaseKey, source: Writer
) -> None:
    options = BaseOptions(name="Run: books", default_status=ItemStatus.PUBLISHED, subdir="docs")
    receipt = importer.from_repository(key, str(source.path), options)
    assert receipt.base.settings == BaseSettings("Run: books", default_status=ItemStatus.PUBLISHED, subdir="docs")
    assert [item.item_id for item in catalogue.items(str(key))] == ["runbooks/docs/b"]
    repository = home.repository(key)
    assert [c.parents for c in repository.commits([receipt.base.head or ""])] == [(source.head,)]
    # The numbers of what lies outside are those that it has when it comes in later.
    assert len(catalogue.revisions(str(key), "runbooks/a")) == 2


def test_a_branch_can_be_chosen(importer: Importer, home: Home, key: BaseKey, source: Writer) -> None:
    source.git("branch", "old", "HEAD~1")
    importer.from_repository(key, str(source.path), BaseOptions(), "old")
    assert home.repository(key).refs().keys() == {"refs/heads/old", "refs/kbgit/publications"}
    assert home.repository(key).head() == source.git("rev-parse", "old")


def test_links_and_submodules_of_a_repository_stay_in_it_and_are_listed(
    importer: Importer, home: Home, catalogue: Catalogue, key: BaseKey, source: Writer
) -> None:
    (source.path / "secret.md").symlink_to("/etc/passwd")
    (source.path / "link").symlink_to("/etc")
    source.git("add", "--all")
    source.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},theme.git")
    source.git("commit", "--quiet", "--message", "Links")
    with pytest.raises(PushRefused, match=r"secret\.md:1: is a symbolic link where an item should be"):
        importer.from_repository(key, str(source.path), BaseOptions())
    receipt = importer.from_repository(key, str(source.path), BaseOptions(admission=Admission.LENIENT))
    assert [(problem.path, problem.code) for problem in receipt.problems] == [("secret.md", "not_a_file")]
    assert {("link", "a symbolic link"), ("theme.git", "a submodule")} <= set(receipt.others)
    assert {item.path for item in catalogue.items(str(key))} == {"a.md", "docs/b.md"}


def test_a_directory_becomes_one_commit(
    importer: Importer, home: Home, catalogue: Catalogue, key: BaseKey, tmp_path: Path, told: list[str]
) -> None:
    root = tmp_path / "notes"
    files = {
        "a.md": text("A"),
        "测试 “x”.md": text("B"),
        "sub/c.txt": "c",
        ".git/config": "x",
        "node_modules/m.md": "x",
        ".x/h.md": "h",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "secret.md").symlink_to("/etc/passwd")
    (root / "elsewhere").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.md")
    receipt = importer.from_directory(key, root, BaseOptions(default_status=ItemStatus.PUBLISHED))
    repository = home.repository(key)
    head = receipt.base.head or ""
    assert {entry.path.decode() for entry in repository.tree(head)} == {
        "a.md", "base.yaml", "sub/c.txt", '测试 “x”.md',
    }  # fmt: skip
    left_out = [line for line in told if line.startswith("left out")]
    assert [Path(line.split()[2]).name for line in left_out] == ["elsewhere", "pipe.md", "secret.md"]
    assert (root / "a.md").read_text() == files["a.md"]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_texts_in_other_encodings_are_converted_with_a_note_whatever_the_locale(
    home: Home, key: BaseKey, tmp_path: Path, locale: str
) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / "old.md").write_bytes("# Café – “quoted”\n".encode("cp1252"))
    (root / "wide.md").write_bytes("# Größe\n".encode("utf-16"))
    (root / "new.md").write_bytes("# 設定 é\n".encode())
    (root / "bytes.bin").write_bytes(b"\xff\x00\x81")
    (root / "büro.md").write_text("# B\n", "utf-8")
    program = (
        "import sys; from pathlib import Path; from kbgit.base import BaseKey; from kbgit.home import Home\n"
        "from kbgit.importing import BaseOptions, Importer\n"
        "home = Home.at(Path(sys.argv[1])); key = BaseKey.parse(sys.argv[2])\n"
        "Importer(home, home.catalogue(), 'ada', lambda line: print(ascii(line)))"
        ".from_directory(key, Path(sys.argv[3]), BaseOptions())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(home.path), str(key), str(root)],
        env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "old.md from windows-1252 to UTF-8" in said
    assert "wide.md from utf-16 to UTF-8" in said
    catalogue = home.catalogue()
    titles = {item.path: item.title for item in catalogue.items(str(key))}
    catalogue.close()
    assert titles == {"old.md": "Café – “quoted”", "wide.md": "Größe", "new.md": "設定 é", "büro.md": "B"}
    repository = home.repository(key)
    raw = {entry.path: repository.blob(entry.sha) for entry in repository.tree(repository.head() or "")}
    assert raw[b"bytes.bin"] == b"\xff\x00\x81"
    repository.close()


def test_a_new_base_is_empty_or_has_its_settings(importer: Importer, home: Home, key: BaseKey) -> None:
    assert importer.create(key, BaseOptions()).head is None
    other = BaseKey("team:platform", "other")
    base = importer.create(other, BaseOptions(name="Other", description="first line\nsecond: line"), branch="trunk")
    assert base.settings.description == "first line\nsecond: line"
    assert home.repository(other).published_branch() == "refs/heads/trunk"
    assert [entry.path for entry in home.repository(other).tree(base.head or "")] == [b"base.yaml"]


REFUSED: dict[str, Callable[[Importer, BaseKey, Path], object]] = {
    "a broken item": lambda i, k, p: i.from_directory(k, p, BaseOptions()),
    "an empty directory": lambda i, k, p: i.from_directory(k, p / "empty", BaseOptions()),
    "no directory": lambda i, k, p: i.from_directory(k, p / "nowhere", BaseOptions()),
    "a subdir that is not there": lambda i, k, p: i.from_directory(k, p, BaseOptions(subdir="nowhere")),
    "no repository": lambda i, k, p: i.from_repository(k, str(p), BaseOptions()),
    "no such branch": lambda i, k, p: i.from_repository(k, str(p / "repository"), BaseOptions(), "nowhere"),
    "a broken repository": lambda i, k, p: i.from_repository(k, str(p / "repository"), BaseOptions()),
    "an option that git would read": lambda i, k, p: i.from_repository(k, "--upload-pack=touch x", BaseOptions()),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_import_leaves_nothing_behind(
    importer: Importer, home: Home, key: BaseKey, tmp_path: Path, case: str
) -> None:
    root = tmp_path / "input"
    (root / "empty").mkdir(parents=True)
    (root / "bad.md").write_text(BROKEN)
    subprocess.run(["git", "init", "--quiet", root / "repository"], env=WRITER_ENVIRONMENT, check=True)
    Writer(root / "repository", "").commit({"bad.md": BROKEN, "good.md": text()})
    before, files = tables(home), sorted(home.path.rglob("*"))
    with pytest.raises((PushRefused, InvalidRequest, GitFailure)):
        REFUSED[case](importer, key, root)
    assert tables(home) == before
    assert [path for path in sorted(home.path.rglob("*")) if path not in files] == []
    for bad in root.rglob("bad.md"):
        bad.write_text(text("Mended"))
    importer.from_directory(key, root, BaseOptions())
    with pytest.raises(AlreadyExists):
        importer.from_directory(key, root, BaseOptions())
    assert len(home.base_keys()) == 1, "and the one that was there stays"


def test_an_import_that_is_interrupted_leaves_nothing_behind(
    home: Home, catalogue: Catalogue, key: BaseKey, source: Writer
) -> None:
    def stop(line: str) -> None:
        if line == "publishing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Importer(home, catalogue, "ada", stop).from_repository(key, str(source.path), BaseOptions())
    assert home.base_keys() == []
    assert catalogue.bases() == []


def test_every_problem_of_an_import_is_named_at_once(importer: Importer, key: BaseKey, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    for name in ("a.md", "b.md", "AUX.md"):
        (root / name).write_text(BROKEN)
    with pytest.raises(PushRefused) as caught:
        importer.from_directory(key, root, BaseOptions())
    assert [(p["path"], p["code"]) for p in caught.value.details["problems"]] == [
        ("AUX.md", "unsafe_name"), ("AUX.md", "document_problem"), ("a.md", "document_problem"), ("b.md", "document_problem"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no", "no"),
        ("a: b # c", "a: b # c"),
        ("  x ", "x"),
        ("Größe 設定", "Größe 設定"),
        ("'q' \"r\"", "'q' \"r\""),
        ("a\nb\u2028c", "a\nb\u2028c"),
    ],
)
def test_any_name_can_be_written_into_the_settings(name: str, expected: str) -> None:
    written = settings_text(b"# ours\nname: old\nstatus: archived\n", {"name": name})
    assert written.startswith(b"# ours\nname: ")
    assert written.endswith(b"\nstatus: archived\n")
    assert BaseSettings.parse(written, "x").name.strip() == expected


def test_every_sample_base_can_be_imported_strictly(
    importer: Importer, catalogue: Catalogue, bases_directory: Path
) -> None:
    for directory in sorted(path.parent for path in bases_directory.glob("*/base.yaml")):
        key = BaseKey("team:samples", directory.name)
        try:
            receipt = importer.from_directory(key, directory, BaseOptions())
        except KbgitError as error:
            pytest.fail(f"{directory.name}: {error.message}")
        assert receipt.items
        assert not receipt.problems
