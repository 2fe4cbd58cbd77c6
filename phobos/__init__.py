"""The name that kernels import: `import phobos.lang as ph`. Everything is in `phobos_sim.lang`."""
