"""Queries that no friendly user writes, without end and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

ALPHABETS = (
    "abc de",
    "\"'()[]{}<>",
    "+-*/\\|&^~!?:;.,=@#$%_`",
    "\x00\x01\x07\x08\x0b\x0c\x1b\x1f\x7f\x80\x85\x9f\n\r\t",
    "我们使用向量数据库日本語テストの한국어로",
    "مرحبا שלום \u202e\u202d\u2066\u2069\u200f",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\ufe0f\U0001f1e9\U0001f1ea",
    "e\u0301\u0300\u0323ÅÅßẞıİſﬁ½①Ⅷ\ufdfa\u0130",
    "\ud800\udfff\udc00",
    "\ufeff\u200b\u00ad\u2028\u2029\ufffe\U000e0041\U0010ffff",
    "0123456789.,:-",
)
WORDS = (
    *("AND", "OR", "NOT", "NEAR", "NEAR/3", "TO", "heron", "deploy", "kubectl", "title:", "id:*", "url: x", "W-2", "R&D"),
    *("C++", "C#", ".NET", "ERR-1234", "@ana", "v1.2.3", "/etc/hosts", "..\\..\\x", "%2e%2e", "%00", "${jndi:x}", "{{7*7}}"),
    *("' OR 1=1 --", "'; DROP TABLE items; --", "\" UNION SELECT 1", "MATCH", "rowid:", "^a", "a*", "*", "?", "a~2", "a^5"),
    *("[a TO z]", "[a TO", "{a TO b}", "/a(.*)*b/", "(a+)+$", "(?=", "[[:alpha:]]", "\\d+", "\\", '"', '"open phrase', "''"),
    *("- -a", "a -", "+a +b"),
    *("<script>", "<b>heron</b>", "](javascript:x)", "knowledge:a@b", "\ud83d", "été", "Straße", "l'école", "日本語", "向量"),
)  # fmt: skip
LONGEST = 8192


def queries(seed: int) -> Iterator[str]:
    """One query after another."""
    chance = random.Random(seed)
    while True:
        match chance.randrange(8):
            case 0:  # words that mean something elsewhere
                found = " ".join(chance.choices(WORDS, k=chance.randint(1, 8)))
            case 1:  # the same without spaces
                found = "".join(chance.choices(WORDS, k=chance.randint(1, 6)))
            case 2:  # one alphabet
                found = _letters(chance, chance.choice(ALPHABETS), 40)
            case 3:  # all of them
                found = "".join(_letters(chance, chance.choice(ALPHABETS), 6) for _ in range(chance.randint(1, 12)))
            case 4:  # any code points
                found = "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randint(0, 30)))
            case 5:  # one piece over and over, up to the limit
                piece = chance.choice(WORDS + ALPHABETS[1:4])
                found = (piece * LONGEST)[: chance.choice((2, 60, 1000, LONGEST))]
            case 6:  # brackets and quotes that do not close
                opening = "".join(chance.choices('([{"<', k=chance.randint(1, 30)))
                found = opening + chance.choice(WORDS) + opening[: chance.randint(0, len(opening))]
            case _:  # an exclusion, a field, a range
                found = chance.choice(('-"', "-", "NOT ", "title:", "+", '"')) + chance.choice(WORDS)
        yield found[:LONGEST]


def _letters(chance: random.Random, alphabet: str, most: int) -> str:
    return "".join(chance.choices(alphabet, k=chance.randint(0, most)))
