"""Recorder: runs the instruction table on a real card and writes a recording."""
