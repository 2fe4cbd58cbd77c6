"""Vulkan: device choice, probe, memory, pipelines and their cache, launch; tile program to kernel."""
