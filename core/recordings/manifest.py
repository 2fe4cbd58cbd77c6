"""The manifest beside a recording: what was recorded, on which card, by whom, and the hashes that seal both files.

Rules
 1. `schema.json` is the format. A manifest is checked against it by `validate`, a small interpreter of the JSON Schema
    keywords that the file uses, so no schema library is needed.
 2. `sha256` and `bytes` are of the npz file; `seal` is the sha256 of the manifest itself without that entry, keys
    sorted, no spaces. A hand-edited manifest is refused.
 3. Every array of the npz is listed with dtype and shape, and every row names its arrays: nothing is guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import RecordingError

FORMAT = "phobos-sim recording"
VERSION = 1
_SCHEMA = Path(__file__).with_name("schema.json")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}


@dataclass(frozen=True)
class Row:
    """One instruction of a recording.

    kind: ``matrix`` (inputs a [t, m, k], b [t, k, n], c [t, m, n]), ``dot`` (a [t, k], b [t, k], c [t]), ``scalar``
    (flat) or ``gemm`` (a [m, k], b [k, n], c [m, n], k tiles executed in `k_order`). classes: (input class, how many
    tiles or elements), in order. labels: (vector, flat index of its result) of named vectors. ptx: what was executed.
    results: number of output codes.
    """

    name: str
    instruction: str
    kind: str
    ptx: str
    inputs: tuple[str, ...]
    output: str
    results: int
    classes: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, int], ...] = ()
    k_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Everything about one npz. arch: ``sm_90``; origin: ``silicon``, or ``derived`` for results of the rules alone."""

    file: str
    bytes: int
    sha256: str
    arch: str
    card: str
    driver: str
    origin: str
    recorded_by: str
    recorded_on: str
    tool: str
    licence: str
    provenance: str
    seed: int
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    rows: tuple[Row, ...] = field(default=())


def to_json(manifest: Manifest) -> str:
    """The manifest's text, sealed."""
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    document["arrays"] = {
        name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in manifest.arrays.items()
    }
    document["rows"] = [
        {key: value for key, value in row.items() if value or key == "classes"} for row in document["rows"]
    ]
    document["seal"] = seal(document)
    return json.dumps(document, indent=1) + "\n"


def seal(document: dict[str, Any]) -> str:
    """sha256 over the document without its seal."""
    rest = {key: value for key, value in document.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(path: Path) -> Manifest:
    """A manifest from its file; RecordingError if it is no valid, sealed manifest of this version."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise RecordingError(f"{path}: not a readable JSON manifest ({fault}); fetch or record the set again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RecordingError(f'{path}: not a manifest: expected "format": "{FORMAT}"; see docs/recordings.md')
    if document.get("version") != VERSION:
        raise RecordingError(
            f"{path}: version {document.get('version')!r}, this program reads {VERSION}; update phobos-sim"
        )
    validate(document, schema(), str(path))
    if document["seal"] != seal(document):
        raise RecordingError(
            f"{path}: the manifest was changed after it was written (its seal does not match); "
            "fetch the set again, or record it again"
        )
    return _from_document(document)


def _from_document(document: dict[str, Any]) -> Manifest:
    rows = tuple(
        Row(
            name=row["name"],
            instruction=row["instruction"],
            kind=row["kind"],
            ptx=row["ptx"],
            inputs=tuple(row["inputs"]),
            output=row["output"],
            results=row["results"],
            classes=tuple((name, count) for name, count in row["classes"]),
            labels=tuple((name, index) for name, index in row.get("labels", ())),
            k_order=tuple(row.get("k_order", ())),
        )
        for row in document["rows"]
    )
    arrays = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in document["arrays"].items()}
    kept = {key: document[key] for key in Manifest.__dataclass_fields__ if key not in ("rows", "arrays")}
    return Manifest(**kept, arrays=arrays, rows=rows)


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a manifest."""
    return json.loads(_SCHEMA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def validate(value: Any, rule: dict[str, Any], where: str) -> None:
    """Check a JSON value against the keywords of JSON Schema that schema.json uses; RecordingError names the place."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rsplit("/", 1)[1]]
    if "const" in rule and value != rule["const"]:
        raise RecordingError(f"{where}: expected {rule['const']!r}, found {value!r}")
    if "enum" in rule and value not in rule["enum"]:
        raise RecordingError(f"{where}: expected one of {', '.join(map(str, rule['enum']))}, found {value!r}")
    kind = rule.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        raise RecordingError(f"{where}: expected {kind}, found {type(value).__name__}")
    if isinstance(value, str) and "pattern" in rule and not re.fullmatch(rule["pattern"], value):
        raise RecordingError(f"{where}: {value!r} does not look like {rule['pattern']}")
    if kind == "integer" and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        raise RecordingError(f"{where}: {value} is outside {rule.get('minimum')} to {rule.get('maximum')}")
    if isinstance(value, list):
        _validate_list(value, rule, where)
    elif isinstance(value, dict):
        _validate_object(value, rule, where)


def _validate_list(value: list[Any], rule: dict[str, Any], where: str) -> None:
    if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
        raise RecordingError(f"{where}: {len(value)} items, expected {rule.get('minItems')} to {rule.get('maxItems')}")
    heads = rule.get("prefixItems", [])
    for index, item in enumerate(value):
        validate(item, heads[index] if index < len(heads) else rule.get("items", {}), f"{where}[{index}]")


def _validate_object(value: dict[str, Any], rule: dict[str, Any], where: str) -> None:
    known = rule.get("properties", {})
    for key in rule.get("required", ()):
        if key not in value:
            raise RecordingError(f"{where}: {key!r} is missing")
    for key, item in value.items():
        other = rule.get("additionalProperties", {})
        if key not in known and other is False:
            raise RecordingError(f"{where}: unknown entry {key!r}")
        validate(item, known.get(key, other), f"{where}.{key}")
