"""One result taken apart, bit by bit, and whole-kernel differences."""
