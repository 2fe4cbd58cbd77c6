"""The Phobos language: syntax tree, .ph parser, Python spelling, types and checks."""
