"""Reads GGUF files (llama.cpp's format, version 3): metadata, and tensors in FP32.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Tensor types F32, F16, Q4_1 and Q8_0; another one is an error.
"""

import math
import pathlib
import struct

import numpy

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, LIST = 8, 9
BLOCK = 32  # values that share a scale


def halves(blocks):
    """Pairs of bytes [n, 2k] as FP16 numbers [n, k], in FP32."""
    return numpy.ascontiguousarray(blocks).view("<f2").astype(numpy.float32)


def dequantize_q8_0(data):
    """Blocks of an FP16 scale d and 32 bytes q: d · q."""
    blocks = data.reshape(-1, 2 + BLOCK)
    return halves(blocks[:, :2]) * blocks[:, 2:].view(numpy.int8)


def dequantize_q4_1(data):
    """Blocks of FP16 scale d, FP16 minimum m and 32 values q of 4 bits, the low halves of the bytes first: d · q + m."""
    blocks = data.reshape(-1, 4 + BLOCK // 2)
    quants = numpy.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    return halves(blocks[:, :2]) * quants + halves(blocks[:, 2:4])


# ggml type: (bytes of 32 values, conversion to FP32)
TYPES = {
    0: (4 * BLOCK, lambda data: data.view("<f4")),
    1: (2 * BLOCK, lambda data: data.view("<f2").astype(numpy.float32)),
    3: (4 + BLOCK // 2, dequantize_q4_1),
    8: (2 + BLOCK, dequantize_q8_0),
}


class Gguf:
    """`metadata` by key; `tensors`: name → (shape, outermost dim first, ggml's type, offset in the file)."""

    def __init__(self, path):
        self.bytes = memoryview(pathlib.Path(path).read_bytes())
        self.at = 0
        magic, version = self.bytes[:4], struct.unpack("<I", self.bytes[4:8])[0]
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"{path}: expected GGUF version 3, found {bytes(magic)} version {version}")
        self.at = 8
        tensors, entries = self.scalar("Q"), self.scalar("Q")
        self.metadata = {}
        for _ in range(entries):
            key = self.string()
            self.metadata[key] = self.value(self.scalar("I"))
        self.tensors = {}
        for _ in range(tensors):
            name = self.string()
            shape = [self.scalar("Q") for _ in range(self.scalar("I"))][::-1]
            kind, offset = self.scalar("I"), self.scalar("Q")
            if kind not in TYPES:
                raise ValueError(f"{path}: {name} has ggml type {kind}, expected one of {sorted(TYPES)}")
            self.tensors[name] = (shape, kind, offset)
        alignment = self.metadata.get("general.alignment", 32)
        self.data = -(-self.at // alignment) * alignment

    def scalar(self, code):
        value = struct.unpack_from("<" + code, self.bytes, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.scalar("Q")
        self.at += size
        return str(self.bytes[self.at - size : self.at], "utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == LIST:
            of, count = self.scalar("I"), self.scalar("Q")
            return [self.value(of) for _ in range(count)]
        return self.scalar(SCALARS[kind])

    def tensor(self, name):
        """FP32, outermost dim first."""
        shape, kind, offset = self.tensors[name]
        size, convert = TYPES[kind]
        begin = self.data + offset
        raw = numpy.frombuffer(self.bytes[begin : begin + math.prod(shape) // BLOCK * size], numpy.uint8)
        return convert(raw).reshape(shape)
