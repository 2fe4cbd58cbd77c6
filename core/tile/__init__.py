"""The typed tile program: lowering from the syntax tree, and its mapping to parallel regions."""
