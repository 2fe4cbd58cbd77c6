"""Recordings of real silicon: file format, loader, importer of public sets."""
