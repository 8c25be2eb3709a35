"""What a column of a table becomes as columns of features: numbers, flags, categories, lists, words.

Each kind learns from the rows it is given, and encodes later ones in the same columns; what it has not seen, and what
is missing, is zero. What was learnt is text and numbers, so a file can keep it. Must not know ids, frames or models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from halfstep.data.feature_values import (
    Table,
    Values,
    as_lists,
    as_numbers,
    as_texts,
    bounded,
    is_absent,
    is_flag,
    is_list,
    is_number,
    is_text,
    joined,
)
from halfstep.data.plain_ids import is_null
from halfstep.errors import check_number, one_of

MAX_WORDS = 50_000  # the most frequent ones are kept
LEAST_ROWS = 2  # a word of a single row says nothing about another row


class FeatureBlock(Protocol):
    """A few columns of features, made from one or more columns of a table."""

    kind: ClassVar[str]

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the table it reads."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What its p columns are called."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The word of each of its columns, in whatever text; "" for columns that are no words."""
        ...

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """The block of a table with so many rows: CSR of float64, (rows, p). An absent column is zeros."""
        ...


@dataclass(frozen=True)
class _OneColumn:
    column: str

    def __post_init__(self) -> None:
        _check_texts("column", (self.column,))

    @property
    def sources(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        """What its columns are called."""
        raise NotImplementedError

    @property
    def keys(self) -> tuple[str, ...]:
        """No column is a word."""
        return ("",) * len(self.names)


@dataclass(frozen=True)
class Numbers(_OneColumn):
    """One column, (x - mean) / scale over the rows it was learnt from; 0, the mean, where missing."""

    kind: ClassVar[str] = "numbers"
    mean: float
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"mean of column {self.column!r}", self.mean)
        check_number(f"scale of column {self.column!r}", self.scale, above=0)

    @classmethod
    def learn(cls, column: str, values: Values) -> Self:
        """Mean and standard deviation of what is there; a constant column has scale 1."""
        numbers = as_numbers(column, values)
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(column, 0.0, 1.0)
        return cls(column, float(known.mean()), float(known.std()) or 1.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the column."""
        return (self.column,)

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """Standardised numbers, (rows, 1)."""
        numbers = as_numbers(self.column, table.get(self.column, [None] * rows))
        with np.errstate(over="ignore"):
            found = bounded(self.column, (numbers - self.mean) / self.scale)
        return sparse.csr_array(np.nan_to_num(found)[:, None])


@dataclass(frozen=True)
class Flags(_OneColumn):
    """One column of 1 where true; 0 where false or missing."""

    kind: ClassVar[str] = "flags"

    @classmethod
    def learn(cls, column: str, values: Values) -> Self:
        """Nothing is to be learnt."""
        return cls(column)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the column."""
        return (self.column,)

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """Zeros and ones, (rows, 1)."""
        values = table.get(self.column, [None] * rows)
        wrong = next((value for value in values if not is_null(value) and not is_flag(value)), None)
        if wrong is not None:
            raise TypeError(f"column {self.column!r} holds flags, and {wrong!r} is neither true nor false")
        return sparse.csr_array(np.array([[not is_null(value) and bool(value)] for value in values], np.float64))


@dataclass(frozen=True)
class Categories(_OneColumn):
    """A column for every value seen, "group=25"; 1 in the column of the row's value."""

    kind: ClassVar[str] = "categories"
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_texts("values", self.values)

    @classmethod
    def learn(cls, column: str, values: Values) -> Self:
        """The distinct values as text, sorted."""
        return cls(column, tuple(sorted(set(as_texts(column, values)) - {None})))  # type: ignore[arg-type]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the column and a value."""
        return tuple(f"{self.column}={value}" for value in self.values)

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """One-hot, (rows, values)."""
        texts = as_texts(self.column, table.get(self.column, [None] * rows))
        return _hot([() if text is None else (text,) for text in texts], self.values)


@dataclass(frozen=True)
class Lists(_OneColumn):
    """A column for every element seen, "genres=Drama". A row of k known elements has 1/sqrt(k) in each of theirs.

    separator : where lists are written as text, such as "Crime|Drama", what stands between two; else None.
    """

    kind: ClassVar[str] = "lists"
    values: tuple[str, ...]
    separator: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_texts("values", self.values)
        if self.separator is not None:
            _check_texts("separator", (self.separator or None,))

    @classmethod
    def learn(cls, column: str, values: Values, separator: str | None = None) -> Self:
        """The distinct elements as text, sorted."""
        lists = as_lists(column, values, separator)
        return cls(column, tuple(sorted(set(chain.from_iterable(lists)))), separator)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the column and an element."""
        return tuple(f"{self.column}={value}" for value in self.values)

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """Multi-hot rows of length 1, (rows, elements)."""
        lists = as_lists(self.column, table.get(self.column, [None] * rows), self.separator)
        return unit_rows(_hot(lists, self.values))


@dataclass(frozen=True)
class TextWords:
    """A column for every word of some text columns, "title: python": tf-idf with 1 + log(count), rows of length 1.

    Several text columns of a row are read as one text, called by the first; lists of texts are joined. Words are those
    of scikit-learn's TfidfVectorizer (two letters and more, lower case) that at least two rows have.
    """

    kind: ClassVar[str] = "words"
    columns: tuple[str, ...]
    words: tuple[str, ...]
    idf: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_texts("columns", self.columns)
        _check_texts("words", self.words)
        if not self.columns or not isinstance(self.idf, tuple) or len(self.idf) != len(self.words):
            raise ValueError(f"{len(self.columns)} columns of text have {len(self.words)} words, and others with idf")
        for idf in self.idf:
            check_number("idf", idf, at_least=0)

    @classmethod
    def learn(cls, columns: Sequence[str], table: Table) -> Self:
        """Words and their idf = 1 + log((1 + rows) / (1 + rows that have it))."""
        from sklearn.feature_extraction.text import CountVectorizer

        texts = joined(columns, table)
        counter = CountVectorizer(strip_accents="unicode")
        try:
            counts = counter.fit_transform(texts)
        except ValueError:  # scikit-learn's word for texts without a word
            return cls(tuple(columns), (), ())
        having = np.bincount(counts.indices, minlength=counts.shape[1])
        frequent = np.argsort(-having, kind="stable")[:MAX_WORDS]
        kept = np.sort(frequent[having[frequent] >= min(LEAST_ROWS, len(texts))])
        idf = 1 + np.log((1 + len(texts)) / (1 + having[kept]))
        words = counter.get_feature_names_out()[kept]
        return cls(tuple(columns), tuple(map(str, words)), tuple(idf.tolist()))

    @property
    def sources(self) -> tuple[str, ...]:
        """The text columns."""
        return self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """The first text column and a word."""
        return tuple(f"{self.columns[0]}: {word}" for word in self.words)

    @property
    def keys(self) -> tuple[str, ...]:
        """The words."""
        return self.words

    def encode(self, table: Table, rows: int) -> sparse.csr_array:
        """tf-idf rows of length 1, (rows, words)."""
        from sklearn.feature_extraction.text import CountVectorizer

        if not self.words:
            return sparse.csr_array((rows, 0))
        texts = joined(self.columns, {name: table.get(name, [None] * rows) for name in self.columns})
        counter = CountVectorizer(vocabulary=list(self.words), strip_accents="unicode")
        counts = sparse.csr_array(counter.transform(texts), dtype=np.float64)
        counts.data = (1 + np.log(counts.data)) * np.array(self.idf)[counts.indices]
        return unit_rows(counts)


def column_kind(column: str, values: Values) -> Callable[[str, Values], FeatureBlock]:
    """What a column of a table is read as: flags, numbers, lists or categories, by what it holds."""
    known = [value for value in values if not is_absent(value)]
    if not known:  # no values: no columns
        return Categories.learn
    for fits, learn in (
        (is_flag, Flags.learn),
        (is_number, Numbers.learn),
        (is_list, Lists.learn),
        (is_text, Categories.learn),
    ):
        if all(map(fits, known)):
            return learn
    kinds = sorted({type(value).__name__ for value in known})
    raise TypeError(
        f"column {column!r} holds {', '.join(kinds)}; features are made of numbers, booleans, text and lists of them: "
        "convert it (a date to its year, say), or leave it out"
    )


def unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Rows of length 1; empty ones stay empty."""
    lengths = np.sqrt(np.asarray(matrix.power(2).sum(axis=1)).ravel())
    scaled = matrix.copy()
    scaled.data = scaled.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(scaled.indptr))
    return scaled


KINDS: dict[str, Callable[..., FeatureBlock]] = {
    block.kind: block for block in (Numbers, Flags, Categories, Lists, TextWords)
}


def block_to_json(block: Any) -> dict[str, Any]:
    """A block as plain JSON."""
    return {"kind": block.kind, **{name: _plain(value) for name, value in asdict(block).items()}}


def block_from_json(stored: Any) -> FeatureBlock:
    """The block that `block_to_json` wrote; what it cannot have written raises ValueError."""
    try:
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        one_of("kind", fields["kind"], KINDS)
        block: FeatureBlock = KINDS[fields.pop("kind")](**fields)
        return block
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"a block of features cannot be read: {error}") from error


def _check_texts(name: str, texts: Any) -> None:
    """Raise unless these are texts, each once: a file may say anything."""
    if not isinstance(texts, tuple) or not all(map(is_text, texts)) or len(set(texts)) < len(texts):
        raise ValueError(f"{name}={texts!r} of features must be text, each once")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _hot(rows: Sequence[Iterable[str]], values: tuple[str, ...]) -> sparse.csr_array:
    """1 in the columns of the known values of each row, (rows, values); repeats count once."""
    places = {value: place for place, value in enumerate(values)}
    found = [sorted({places[value] for value in row if value in places}) for row in rows]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in found])]).astype(np.int64)
    columns = np.fromiter(chain.from_iterable(found), np.int32, int(ends[-1]))
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(rows), len(values)))
