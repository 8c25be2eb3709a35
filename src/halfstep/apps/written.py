"""Records as text and files: CSV, TSV, JSON, JSON lines, Parquet, Arrow. Knows rows of names and values, no models."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from halfstep.data.files import atomic_write
from halfstep.errors import require

Records = list[dict[str, Any]]
ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow")
"""Of files that answers are written to."""
_TEXTS = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", "": "tsv", ".json": "json", ".jsonl": "jsonl"}


def as_text(records: Records, form: str) -> str:
    """Records as "csv", "tsv", "json" or "jsonl"."""
    if form == "json":
        return to_json(records) + "\n"
    if form == "jsonl":
        return "".join(to_json(record, None) + "\n" for record in records)
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="," if form == "csv" else "\t", lineterminator="\n")
    if records:
        writer.writerow(records[0])
    writer.writerows([_exact(value) for value in record.values()] for record in records)
    return stream.getvalue()


def write_records(path: Path, records: Records) -> None:
    """Records to a file, whole or not at all; the ending of its name decides the format."""
    check_ending(path)
    suffix = path.suffix.lower()
    if suffix in _TEXTS:
        write_text(path, as_text(records, _TEXTS[suffix]))
        return
    pa = require("pyarrow", "frames")
    columns = {name: [plain(record[name]) for record in records] for name in (records[0] if records else {})}
    kind = "parquet" if suffix in (".parquet", ".pq") else "feather"
    module = require(f"pyarrow.{kind}", "frames")
    write = module.write_table if kind == "parquet" else module.write_feather
    with atomic_write(path) as temporary:
        write(pa.table(columns), str(temporary))


def check_ending(path: Path) -> None:
    """Raise where no format goes by this ending."""
    suffix = path.suffix.lower()
    if suffix not in (*_TEXTS, *ENDINGS, ".pq", ".feather"):
        raise ValueError(
            f"--output {path}: the ending {suffix!r} is not known; use .csv, .tsv, .json, .jsonl, .parquet or .arrow"
        )


def write_text(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def decimals(values: Iterable[Any]) -> int | None:
    """How many decimals a column of numbers has, one for all of them; None where there is no float among them."""
    floats = [float(v) for v in values if isinstance(v, (float, np.floating)) and math.isfinite(v)]
    if not floats:
        return None
    largest = max(map(abs, floats))
    most = int(np.clip(3 - math.floor(math.log10(largest)), 0, 4)) if largest else 0
    return next(digits for digits in range(most + 1) if digits == most or all(_stops(v, digits) for v in floats))


def _stops(value: float, digits: int) -> bool:
    """Whether a number has no more than so many decimals."""
    return abs(value - round(value, digits)) < 1e-9


def _exact(value: Any) -> Any:
    value = plain(value)
    return "" if value is None else value


def plain(value: Any) -> Any:
    """Python numbers, text, lists and dicts; NaN and infinity become null, which is what JSON readers expect."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        # The short text of a float32 is the number people know; its float64 twin has a tail of digits.
        value = float(str(value)) if isinstance(value, np.floating) else value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def to_json(value: Any, indent: int | None = 2) -> str:
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)
