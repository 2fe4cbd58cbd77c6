// The main job, shown: a Phobos matrix multiplication gives the bits of an SM86 card, with no NVIDIA GPU.
//
// `script/demo` sets up and runs this. It reads examples/matmul.py (never importing it), multiplies 512 x 512 f16 matrices
// of numpy's making on every device found here and on the numpy reference, and compares the results bit for bit.

