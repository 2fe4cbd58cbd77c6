"""Conformance: recordings against a backend, the kill score, and the reports."""
