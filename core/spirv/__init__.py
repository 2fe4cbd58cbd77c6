"""SPIR-V module builder, opcode tables, disassembly and validation."""
