"""Reference backend: SM86 instructions in numpy on integer codes, and the tile program interpreter."""
