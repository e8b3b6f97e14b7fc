"""What is shipped: the packages that are built, what is in them, and that they run where nothing else of this project is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import click
import pytest
import yaml

from kbgit import config
from kbgit.cli.program import program
from kbgit.web.health import Reason
from kbgit.web.hosts import HEALTH

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "kbgit.service"


def run(*command: str | Path, directory: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What is built


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source archive, and the wheel as it is built from that archive alone."""
    target = tmp_path_factory.mktemp("packages")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", target)
    run(*build, "--sdist", ROOT, directory=target)
    (archive,) = target.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    run(*build, "--wheel", target / archive.name.removesuffix(".tar.gz"), directory=target)
    (wheel,) = target.glob("*.whl")
    return {"archive": archive, "wheel": wheel}


def shipped() -> set[str]:
    """Every file that the package needs, as it stands in the wheel."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kbgit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for directory, inside in (("hooks", "kbgit/_hooks"), ("bases", "kbgit/_bases")):
        found |= {
            f"{inside}/{path.relative_to(ROOT / directory).as_posix()}"
            for path in (ROOT / directory).rglob("*")
            if path.is_file()
        }
    return found


def test_the_wheel_has_every_file_of_the_package_and_the_hooks_and_sample_bases(packages: dict[str, Path]) -> None:
    names = set(zipfile.ZipFile(packages["wheel"]).namelist())
    assert not shipped() - names
    for pattern in (r".*/templates/.*\.html", r".*/static/.*", r"kbgit/_hooks/pre-receive", r"kbgit/_bases/.*\.md"):
        assert any(re.fullmatch(pattern, name) for name in names), pattern
    foreign = {name for name in names if not name.startswith(("kbgit/", "kbgit-"))}
    assert not foreign


def test_hooks_are_executable_in_the_wheel(packages: dict[str, Path]) -> None:
    for entry in zipfile.ZipFile(packages["wheel"]).infolist():
        if entry.filename in ("kbgit/_hooks/pre-receive", "kbgit/_hooks/post-receive"):
            assert entry.external_attr >> 16 & 0o100, entry.filename


def test_the_archive_has_what_is_needed_to_build_test_and_deploy(packages: dict[str, Path]) -> None:
    with tarfile.open(packages["archive"]) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    expected = ["pyproject.toml", "README.md", "Makefile", "docs/operating.md", "deploy/kbgit.service"]
    expected += ["tests/test_packaging.py", "hooks/pre-receive", "kbgit/__init__.py"]
    assert not set(expected) - names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", ".git/"))]


def test_from_the_wheel_a_home_is_made_filled_and_searched_where_nothing_else_of_the_project_is(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    libraries = Path(sysconfig.get_paths()["purelib"])
    (installed,) = (environment / "lib").glob("python*/site-packages")
    # The libraries that this test itself runs with, without this project's own entry among them, stand in for a download.
    (installed / "libraries.pth").write_text(f"{libraries}\n")
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"),
        *("--force-reinstall", "--disable-pip-version-check", packages["wheel"]),
        directory=tmp_path,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = run(python, "-c", "import kbgit; print(kbgit.__file__)", directory=elsewhere)
    assert Path(where.strip()).is_relative_to(environment)
    kbgit = environment / "bin" / "kbgit"
    told = {"KBGIT_HOME": str(elsewhere / "home"), "KBGIT_EMBEDDER": "none"}
    run(kbgit, "init", "--owner", "ada", directory=elsewhere, **told)
    (elsewhere / "notes").mkdir()
    (elsewhere / "notes" / "heron.md").write_text("---\nstatus: published\n---\n# Heron\n\nIt waits in the reeds.\n")
    run(kbgit, "base", "import", "notes", "--from", elsewhere / "notes", directory=elsewhere, **told)
    found = json.loads(run(kbgit, "search", "reeds", "--json", directory=elsewhere, **told))
    assert [result["title"] for result in found["results"]] == ["Heron"]
    assert json.loads(run(kbgit, "status", "--json", directory=elsewhere, **told))["health"] == {"status": "ok"}


# How it is deployed


def unit() -> dict[str, dict[str, list[str]]]:
    """The unit file, with every value of a name that is there several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(name, []).append(value)
    return found


def commands_in(text: str) -> set[str]:
    """Which of kbgit's commands a script runs, as far as its lines are no comments."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return set(re.findall(r"\bkbgit ([a-z]+)\b", "\n".join(lines)))


def test_the_unit_names_commands_settings_and_variables_that_exist() -> None:
    service = unit()["Service"]
    started = commands_in("\n".join([*service["ExecStart"], *service["ExecStartPre"]]))
    assert started == {"init", "serve"}
    assert started <= set(program.list_commands(click.Context(program)))
    names = {entry.partition("=")[0] for entry in service["Environment"]}
    assert names <= {"HOME", "KBGIT_HOME", *(config.ENVIRONMENT_PREFIX + row.name.upper() for row in config.TABLE)}
    (state,) = service["StateDirectory"]
    assert f"KBGIT_HOME=/var/lib/{state}/home" in service["Environment"]


def test_the_unit_waits_longer_than_the_server_takes_to_stop_and_hides_the_token_that_init_prints() -> None:
    service = unit()["Service"]
    assert int(service["TimeoutStopSec"][0]) > config.Settings().stop_seconds + 10
    assert service["KillSignal"] == ["SIGTERM"]
    assert ">/dev/null" in service["ExecStartPre"][0]


@pytest.mark.parametrize(
    "line",
    [
        *("Type=exec", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes"),
        *("CapabilityBoundingSet=", "RestrictSUIDSGID=yes", "StateDirectoryMode=0700", "UMask=0077"),
    ],
)
def test_the_unit_is_hardened(line: str) -> None:
    assert line in UNIT.read_text().splitlines()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    # Programs are named that this machine has, so that what is left to complain of is the unit itself.
    text = UNIT.read_text().replace("/opt/kbgit/bin/kbgit", "/bin/true")
    (tmp_path / "kbgit.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "kbgit.service"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "kbgit.service" in line]
    assert complaints == []


def container() -> str:
    return (DEPLOY / "Containerfile").read_text()


def test_the_container_copies_what_there_is_and_starts_what_exists() -> None:
    for line in re.findall(r"^COPY (?!--from)(.+)$", container(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    assert commands_in((DEPLOY / "start.sh").read_text()) == {"init", "serve"}
    assert ">/dev/null" in (DEPLOY / "start.sh").read_text()
    assert os.access(DEPLOY / "start.sh", os.X_OK)
    run("sh", "-n", DEPLOY / "start.sh", directory=ROOT)
    needed = {"pyproject.toml", "README.md", "kbgit", "hooks", "bases"}
    assert needed <= set(
        re.findall(r"(?:^|\s)(?:\./)?([\w.]+)", "\n".join(re.findall(r"^COPY (.+)$", container(), re.M)))
    )


def test_the_container_is_nobody_in_particular_keeps_its_home_on_a_volume_and_says_how_it_is() -> None:
    lines = container().splitlines()
    assert "USER kbgit" in lines
    volume = next(line for line in lines if line.startswith("VOLUME ")).removeprefix("VOLUME ")
    assert f"KBGIT_HOME={volume}/home" in container()
    assert HEALTH in next(line for line in lines if "urlopen" in line)
    assert "KBGIT_HOST=0.0.0.0" in container()
    assert "STOPSIGNAL SIGTERM" in lines


def test_the_compose_file_is_read_and_agrees_with_the_container() -> None:
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    volume = next(line for line in container().splitlines() if line.startswith("VOLUME ")).removeprefix("VOLUME ")
    assert service["volumes"] == [f"home:{volume}"]
    assert all(entry.startswith("127.0.0.1:") for entry in service["ports"]), "TLS is a proxy's; see docs/operating.md"
    names = {config.ENVIRONMENT_PREFIX + row.name.upper() for row in config.TABLE}
    assert set(service["environment"]) <= names


def test_alert_rules_speak_of_metrics_and_reasons_that_exist() -> None:
    source = (ROOT / "kbgit" / "web" / "metrics.py").read_text()
    known = set(re.findall(r'"(kbgit_\w+)"', source))
    text = (DEPLOY / "alerts.yaml").read_text()
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert len(rules) >= 8
    for rule in rules:
        for name in re.findall(r"\bkbgit_\w+", rule["expr"]):
            assert re.sub(r"_(total|count|bucket|sum)$", "", name) in known, name
    assert set(re.findall(r'reason="([^"]+)"', text)) <= {reason.value for reason in Reason}
