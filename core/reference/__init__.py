"""The readable definition: every instruction in numpy on unsigned integer codes, and an interpreter of tile programs.

One file per instruction family, the same names in the same order as `gpu/sm86/`. Integers only; the f64 family may use
numpy's float64.
"""
