"""Tests the parts of tools/oracle that need no PyTorch: the rule, the GGUF reader, the sections of a page."""

import math
import pathlib
import struct
import sys
import unittest

import numpy
from support import InteropTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "oracle"))

import pages  # noqa: E402
from gguf_file import Gguf  # noqa: E402
from rule import judge, worst_and_median  # noqa: E402
from smollm2_folder import halves_together, hugging_face_name  # noqa: E402


def errors(gradient, logits=0.0, loss=0.0):
    return {"logits": logits, "loss": loss, "grad.a": gradient, "grad.b": gradient / 10}


class Rule(unittest.TestCase):
    def test_fp32_is_allowed_twice_pytorch_or_two_millionths(self):
        self.assertEqual(judge("FP32", errors(2e-5), errors(1e-5)), [])
        self.assertEqual(judge("FP32", errors(2e-6), errors(1e-9)), [])
        self.assertEqual(len(judge("FP32", errors(2.1e-5), errors(1e-5))), 1)
        self.assertEqual(len(judge("FP32", errors(1e-7, logits=3e-6, loss=3e-6), errors(1e-7))), 2)

    def test_bf16_is_measured_by_pytorch_alone(self):
        self.assertEqual(judge("BF16, FP32 residuals", errors(0.13), errors(0.1)), [])
        self.assertEqual(len(judge("BF16, FP32 residuals", errors(0.14), errors(0.1))), 1)
        self.assertEqual(judge("BF16", errors(0.1, logits=1.0), errors(0.1)), [])
        self.assertEqual(len(judge("BF16", errors(0.11), errors(0.1))), 1)

    def test_without_a_digit_left_chance_is_allowed_for(self):
        self.assertEqual(judge("BF16", errors(1.6), errors(1.5)), [])
        self.assertEqual(len(judge("BF16", errors(2.1), errors(1.5))), 1)
        self.assertEqual(len(judge("FP32", errors(3.5), errors(1.5))), 1)

    def test_nan_and_missing_tensors_break_the_rule(self):
        for bad in (math.nan, math.inf):
            self.assertEqual(len(judge("FP32", {**errors(1e-7), "grad.b": bad}, errors(1e-7))), 1)
            self.assertEqual(len(judge("BF16", {**errors(1e-7), "grad.b": bad}, errors(1e-7))), 1)

    def test_the_worst_and_the_median_are_of_gradients(self):
        self.assertEqual(worst_and_median({"logits": 9.0, "grad.a": 1.0, "grad.b": 3.0, "grad.c": 2.0}), (3.0, 2.0, "b"))
        self.assertEqual(worst_and_median({"loss": 9.0, "grad.a": 1.0, "grad.b": 3.0})[1], 2.0)


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


class GgufFile(InteropTest):
    def write(self, kind, shape, data, version=3):
        """A file with one tensor `t` (dims innermost first), a number, a text and a list."""
        entries = [string("n") + struct.pack("<II", 4, 7), string("s") + struct.pack("<I", 8) + string("é"),
                   string("l") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("b")]
        head = b"GGUF" + struct.pack("<IQQ", version, 1, len(entries)) + b"".join(entries)
        head += string("t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
        path = self.folder / "file.gguf"
        path.write_bytes(head + bytes(-len(head) % 32) + data)
        return path

    def test_metadata(self):
        self.assertEqual(Gguf(self.write(0, [32], bytes(128))).metadata, {"n": 7, "s": "é", "l": ["a", "b"]})

    def test_plain_numbers_have_the_outermost_dim_first(self):
        values = numpy.arange(96, dtype=numpy.float32)
        for kind, dtype in ((0, numpy.float32), (1, numpy.float16)):
            found = Gguf(self.write(kind, [32, 3], values.astype(dtype).tobytes())).tensor("t")
            numpy.testing.assert_array_equal(found, values.reshape(3, 32))

    def test_q8_0(self):
        quants = numpy.arange(-16, 16, dtype=numpy.int8)
        blocks = b"".join(numpy.float16(scale).tobytes() + quants.tobytes() for scale in (0.5, 2))
        numpy.testing.assert_array_equal(Gguf(self.write(8, [64], blocks)).tensor("t"), [*(quants * 0.5), *(quants * 2.0)])

    def test_q4_1_has_the_low_halves_first(self):
        low, high = numpy.arange(16, dtype=numpy.uint8), numpy.arange(16, dtype=numpy.uint8)[::-1]
        block = numpy.float16(0.5).tobytes() + numpy.float16(-3).tobytes() + (low | high << 4).tobytes()
        numpy.testing.assert_array_equal(Gguf(self.write(3, [32], block)).tensor("t"), [*(low * 0.5 - 3), *(high * 0.5 - 3)])

    def test_other_types_and_versions_are_refused(self):
        with self.assertRaisesRegex(ValueError, "t has ggml type 12"):
            Gguf(self.write(12, [32], bytes(64)))
        with self.assertRaisesRegex(ValueError, "version 2"):
            Gguf(self.write(0, [32], bytes(128), version=2))


class Names(unittest.TestCase):
    def test_rows_of_a_head_are_put_half_a_head_apart(self):
        # llama.cpp stores the rows of a head of four in the order 0, 2, 1, 3: the pairs (0, 2) and (1, 3) side by side.
        stored = numpy.array([0, 2, 1, 3, 4, 6, 5, 7]).reshape(8, 1)
        numpy.testing.assert_array_equal(halves_together(stored, 2).ravel(), numpy.arange(8))

    def test_names(self):
        self.assertEqual(hugging_face_name("blk.7.attn_q.weight"), "model.layers.7.self_attn.q_proj.weight")
        self.assertEqual(hugging_face_name("output_norm.weight"), "model.norm.weight")


class Pages(InteropTest):
    def test_only_the_named_section_is_replaced(self):
        page = self.folder / "page.md"
        page.write_text("top\n<!-- output of ./viaduct.sh a: begin -->\nold\n<!-- output of ./viaduct.sh a: end -->\nbottom\n")
        pages.write_section("a", pages.table(["x"], [["\\1"]]), page)
        self.assertEqual(page.read_text(), "top\n<!-- output of ./viaduct.sh a: begin -->\n\n| x |\n| --- |\n| \\1 |\n\n"
                                           "<!-- output of ./viaduct.sh a: end -->\nbottom\n")
        with self.assertRaisesRegex(RuntimeError, "expected one section"):
            pages.write_section("b", [], page)


if __name__ == "__main__":
    unittest.main()
