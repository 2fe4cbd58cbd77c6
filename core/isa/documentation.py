"""docs/instructions.md, generated from the table: ``python -m phobos_sim.isa.documentation > docs/instructions.md``."""

from __future__ import annotations

from . import ARCHS, FAMILIES, INSTRUCTIONS, Evidence, Instruction

_TITLES = {
    "single": "f32",
    "half": "f16 and bf16",
    "double": "f64",
    "mufu": "MUFU, the special function unit",
    "convert": "Conversions",
    "integer": "Integers, predicates, select",
    "tensor": "Tensor cores: HMMA",
    "integer_tensor": "Integer tensor cores: IMMA",
    "sequences": "PTX operations that become a few instructions, and the language's functions",
}

_HEAD = """# Instructions

<!-- Generated from core/isa by `python -m phobos_sim.isa.documentation`; a test holds this file against the table. -->

Every row runs through `sim.execute(name, ...)` by its name or any of its PTX spellings, on the numpy reference and on a
Vulkan device, with the same bits. Results of arithmetic that are not a number are the canonical NaN of their format
(all ones but the sign); copies, selects and sign flips keep bits.

*Maturity* says how well a row is known on an architecture, with a number that names the evidence at the end:
**validated** (recordings of that architecture and instruction, all equal), **derived** (follows from recordings of
another architecture or from a published definition), **assumed** (a decision of this project).
"""


def render() -> str:
    """The whole page."""
    notes: dict[str, int] = {}
    sections = [_section(family, notes) for family in FAMILIES]
    listed = "\n".join(f"{number}. {text}" for text, number in notes.items())
    return "\n".join([_HEAD, *sections, _architectures(), "## Evidence\n", listed, ""])


def _section(family: str, notes: dict[str, int]) -> str:
    rows = [row for row in INSTRUCTIONS if row.family == family]
    lines = [
        f"## {_TITLES[family]}\n",
        "| name | PTX | executes as | operands -> result | meaning | maturity |",
        "|---|---|---|---|---|---|",
        *(_row(row, notes) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _row(row: Instruction, notes: dict[str, int]) -> str:
    operands = ", ".join("any" if fmt is None else fmt.name for fmt in row.operands)
    cells = (
        f"`{row.key}`",
        "<br>".join(f"`{ptx}`" for ptx in row.ptx),
        " ".join(f"`{sass}`" for sass in row.expansion),
        f"{operands} -> {'any' if row.result is None else row.result.name}",
        row.semantics.replace("|", "\\|"),
        "<br>".join(f"{arch} {_maturity(evidence, notes)}" for arch, evidence in row.evidence.items()),
    )
    return f"| {' | '.join(cells)} |"


def _maturity(evidence: Evidence, notes: dict[str, int]) -> str:
    number = notes.setdefault(evidence.text, len(notes) + 1)
    return f"{evidence.maturity} ({number})"


def _architectures() -> str:
    lines = [
        "## Architectures\n",
        "The rules of HMMA are the same everywhere; these numbers differ (docs/adr/0003).\n",
        "| arch | fraction bits | group f16, bf16 k16 / k8 | group tf32 k8 / k4 | floor f32 / f16 | evidence |",
        "|---|---|---|---|---|---|",
    ]
    for arch in ARCHS.values():
        tf32 = f"{arch.width_tf32} / {arch.width_tf32_k4}" if arch.width_tf32 else "-"
        lines.append(
            f"| {arch.name} | {arch.fraction_bits} | {arch.width16} / {arch.width_k8} | {tf32} "
            f"| {arch.floor_f32} / {arch.floor_f16} | {arch.evidence.maturity}: {arch.evidence.text} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")
