"""The name that kernels written for Phobos import: `import phobos.lang as ph` is `phobos_sim.lang`."""
