"""Writes float4.txt beside it: E2M1 values of ml_dtypes, and NVFP4 blocks made from them with numpy
(pip install ml_dtypes numpy).

    value CODE BITS            the FP32 bits of a code
    code BITS CODE             the code of an FP32 number, which is rounded to nearest even
    matrix BITS                the FP32 scale of the matrix whose blocks follow
    block SCALE BITS... CODE...   the E4M3 code of a block's scale, its 16 numbers and their codes

The scales are those of NVIDIA 2025, "Pretraining large language models with NVFP4", appendix B:
matrix amax / (448 * 6), block amax / 6 in units of that. ml_dtypes does not saturate, so numbers
beyond the largest are clipped before they are converted.
"""

import pathlib

import ml_dtypes
import numpy as np

E2M1, E4M3 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn


def bits(value):
    return f"{np.float32(value).view(np.uint32):08x}"


def codes_of(numbers):
    return np.clip(numbers, -6, 6).astype(E2M1).view(np.uint8) & 15


def blocks_of(matrix):
    matrix_scale = np.abs(matrix).max() / np.float32(448 * 6)
    yield f"matrix {bits(matrix_scale)}"
    for block in matrix:
        scale = np.minimum(np.abs(block).max() / np.float32(6) / matrix_scale, np.float32(448))
        scale = scale.astype(E4M3)
        step = scale.astype(np.float32) * matrix_scale
        codes = codes_of(block / step) if step > 0 else np.where(np.signbit(block), 8, 0)
        yield " ".join(["block", f"{scale.view(np.uint8):02x}", *map(bits, block),
                        *(f"{code:x}" for code in codes)])


values = np.arange(16, dtype=np.uint8).view(E2M1).astype(np.float32)
lines = [f"value {code:x} {bits(value)}" for code, value in enumerate(values)]
magnitudes = np.unique(np.abs(values))
middles = (magnitudes[1:] + magnitudes[:-1]) / np.float32(2)
random = np.random.default_rng(1)
numbers = np.concatenate([magnitudes, middles, *(np.nextafter(middles, np.float32(end))
                                                 for end in (0, np.inf)),
                          random.uniform(0, 8, 300).astype(np.float32),
                          np.array([np.inf, 1e30, 1e-40, 6.5], np.float32)])
numbers = np.concatenate([numbers, -numbers])
lines += [f"code {bits(x)} {code:x}" for x, code in zip(numbers, codes_of(numbers))]
matrix = random.standard_normal((24, 16)).astype(np.float32)
matrix[3] *= np.float32(1e-3)
matrix[4] *= np.float32(1e-7)  # its scale is 0
matrix[5] = 0
matrix[6, 2] = 40
lines += blocks_of(matrix)
lines += blocks_of((matrix * np.float32(3e-30)).astype(np.float32))
pathlib.Path(__file__).with_name("float4.txt").write_text("\n".join(lines) + "\n")
