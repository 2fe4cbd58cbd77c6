"""SM86 instructions as SPIR-V: one file per instruction family, functions named as in `reference`."""
