"""Writes float8.txt beside it: the FP8 formats of ml_dtypes (pip install ml_dtypes numpy).

    value FORMAT CODE BITS     the FP32 bits of a code; "nan" for every NaN
    code FORMAT BITS CODE      the code of an FP32 number, which is rounded to nearest even

ml_dtypes does not saturate, so numbers beyond the largest are clipped before they are converted.
"""

import pathlib

import ml_dtypes
import numpy as np

FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0),
           "e8m0": (ml_dtypes.float8_e8m0fnu, None)}


def bits(value):
    return "nan" if np.isnan(value) else f"{np.float32(value).view(np.uint32):08x}"


def inputs(values, largest):
    """Numbers of the format, midpoints between neighbours, numbers next to midpoints, and random numbers."""
    finite = np.unique(np.abs(values[np.isfinite(values)])).astype(np.float32)
    middles = (finite[1:] + finite[:-1]) / np.float32(2)
    beside = [np.nextafter(middles, np.float32(end)) for end in (0, np.inf)]
    random = np.random.default_rng(1)
    spread = np.exp2(random.uniform(-24, np.log2(largest) + 1, 400)).astype(np.float32)
    special = np.array([np.inf, largest * 1.04, largest * 2, 1e-30, 1e-45], np.float32)
    all_of_them = np.concatenate([finite, middles, *beside, spread, special])
    return np.concatenate([all_of_them, -all_of_them[::7]])


lines = []
for name, (dtype, largest) in FORMATS.items():
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    lines += [f"value {name} {code:02x} {bits(value)}" for code, value in enumerate(values)]
    if largest is None:
        continue
    numbers = inputs(values, largest)
    codes = np.clip(numbers, -largest, largest).astype(dtype).view(np.uint8)
    lines += [f"code {name} {bits(x)} {code:02x}" for x, code in zip(numbers, codes)]
pathlib.Path(__file__).with_name("float8.txt").write_text("\n".join(lines) + "\n")
