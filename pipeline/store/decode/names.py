"""Texts as small numbers: those of a dictionary column are looked up once for each of its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Names:
    """Numbers of texts, in the order in which they are first seen.

    >>> names = Names()
    >>> names.codes(pa.chunked_array([["b", "a", "b"]])).tolist(), names[1], names.code("c")
    ([0, 1, 0], 'a', 2)
    """

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._words: list[str] = []

    def code(self, word: str) -> int:
        """The number of a text."""
        code = self._code.setdefault(word, len(self._words))
        if code == len(self._words):
            self._words.append(word)
        return code

    def codes(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Numbers of a column's texts, (row,); null is the empty text."""
        parts = [self._of(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _of(self, chunk: Any) -> NDArray[np.int64]:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = [self.code(word or "") for word in coded.dictionary.to_pylist()]
        table = np.array([*words, self.code("") if coded.null_count else -1], np.int64)
        indices = coded.indices.fill_null(len(words)) if coded.null_count else coded.indices
        found: NDArray[np.int64] = table[indices.to_numpy(zero_copy_only=False)]
        return found

    def __getitem__(self, code: int) -> str:
        return self._words[code]

    def __len__(self) -> int:
        return len(self._words)
