"""Recorder: runs every instruction of the table on a real NVIDIA card and keeps the codes that come back.

Needs the card's driver and nothing else: the instructions are PTX text, assembled by the driver itself.

    plan.py        what is recorded for a given compute capability, in which file
    scalar_ptx.py  PTX of the scalar rows
    mma_ptx.py     fragment layouts, PTX of the matrix rows and of the k-loop GEMM
    cuda.py        runs jobs on a card; cooperative.py: through Vulkan
    driver.py      the CUDA driver API through ctypes
    record.py      the run itself: progress, resuming, verifying, writing
"""
