#!/usr/bin/env python3
"""Writes the pictures of this folder and expected.json beside them: what PIL reads in each file and what it makes of one in other
sizes, and the values that transformers' image processors (their classes for PIL) give. Needs pillow, numpy and transformers."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL
import transformers
from PIL import Image, ImageOps
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

FOLDER = Path(__file__).resolve().parent
PROCESSORS = {"CLIPImageProcessor": CLIPImageProcessorPil, "Gemma3ImageProcessor": Gemma3ImageProcessorPil,
              "LlavaImageProcessor": LlavaImageProcessorPil, "SiglipImageProcessor": SiglipImageProcessorPil}


def noise(height, width, channels=3, seed=0):
    """Values of all sizes, sharp edges included."""
    values = np.random.RandomState(seed + 100 * height + width).randint(0, 256, (height, width, channels))
    return values.astype(np.uint8)


def gradient(height, width):
    """Smooth, as JPEG likes it."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([20 + 9 * x, 230 - 11 * y, 60 + 4 * x + 5 * y], axis=-1).clip(0, 255).astype(np.uint8)


def exif(orientation, little=True):
    order = "<" if little else ">"
    head = (b"II*\0" if little else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(height, width, depth, colour, rows, more=b""):
    """A PNG of rows of bytes without filters, with other chunks before the picture."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def write_pictures():
    small = noise(3, 4)
    files = {f"orientation_{i}.png": png(3, 4, 8, 2, small.reshape(3, -1), chunk(b"eXIf", exif(i, i % 2 == 0)))
             for i in range(1, 9)}
    grey16 = noise(3, 4, 2).reshape(3, -1)
    files["grey_16.png"] = png(3, 4, 16, 0, grey16)
    files["rgb_16.png"] = png(3, 4, 16, 2, noise(3, 4, 6).reshape(3, -1))
    files["grey_1.png"] = png(2, 11, 1, 0, [[0b10110011, 0b10100000], [0b01010101, 0b01100000]])
    files["grey_4.png"] = png(2, 3, 4, 0, [[0x1f, 0x70], [0x08, 0xc0]])
    palette = chunk(b"PLTE", bytes([250, 10, 20, 0, 200, 90, 7, 7, 7])) + chunk(b"tRNS", bytes([0, 128]))
    files["palette.png"] = png(2, 3, 8, 3, [[0, 1, 2], [2, 0, 1]], palette)
    files["transparent_colour.png"] = png(3, 4, 8, 2, small.reshape(3, -1), chunk(b"tRNS", bytes([0, 1, 0, 2, 0, 3])))
    files["rgba.png"] = png(3, 4, 8, 6, noise(3, 4, 4).reshape(3, -1))
    files["grey_alpha.png"] = png(3, 4, 8, 4, noise(3, 4, 2).reshape(3, -1))
    files["gamma.png"] = png(3, 4, 8, 2, small.reshape(3, -1), chunk(b"gAMA", struct.pack(">I", 100000)))
    files["noise.png"] = png(9, 13, 8, 2, noise(9, 13).reshape(9, -1))
    files["wide.png"] = png(4, 61, 8, 2, noise(4, 61).reshape(4, -1))
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)
    picture = Image.fromarray(gradient(19, 21))
    picture.save(FOLDER / "rgb.jpg", quality=90)
    picture.save(FOLDER / "turned.jpg", quality=90, exif=b"Exif\0\0" + exif(6))
    picture.save(FOLDER / "progressive.jpg", quality=90, progressive=True)
    picture.convert("L").save(FOLDER / "grey.jpg", quality=90)
    Image.fromarray(noise(3, 4, 4), mode="CMYK").save(FOLDER / "cmyk.jpg", quality=20)


def load(name):
    if name == "grey_16.png":  # PIL cuts 16 bits off at 255 there; the upper eight are what the other files give
        high = noise(3, 4, 2)[:, :, :1]
        return Image.fromarray(np.repeat(high, 3, axis=2))
    return ImageOps.exif_transpose(Image.open(FOLDER / name)).convert("RGB")


def picture_json(picture):
    return {"height": picture.height, "width": picture.width, "rgb": np.asarray(picture).reshape(-1).tolist()}


def process(kind, settings, name):
    values = PROCESSORS[kind](**settings)(load(name), return_tensors="np")["pixel_values"][0]
    return {"file": name, "settings": {"image_processor_type": kind, **settings}, "values": [float(v) for v in values.reshape(-1)]}


def main():
    write_pictures()
    names = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".png", ".jpg") and path.name != "cmyk.jpg")
    resizing = []
    for name, height, width in (("noise.png", 4, 5), ("noise.png", 15, 20), ("noise.png", 9, 6), ("noise.png", 2, 13), ("wide.png", 3, 7)):
        for resample in (2, 3):
            resizing.append({"file": name, "resample": resample, **picture_json(load(name).resize((width, height), resample))})
    square = {"height": 6, "width": 6}
    processing = [
        process("CLIPImageProcessor", {"size": {"shortest_edge": 6}, "crop_size": square}, "noise.png"),
        process("CLIPImageProcessor", {"do_resize": False, "crop_size": {"height": 12, "width": 12}, "image_mean": 0.25,
                                       "image_std": [0.5, 0.25, 0.2]}, "noise.png"),
        process("CLIPImageProcessor", {"do_resize": False, "crop_size": {"height": 7, "width": 7}, "do_normalize": False}, "wide.png"),
        process("LlavaImageProcessor", {"do_pad": True, "size": {"shortest_edge": 6}, "crop_size": square}, "noise.png"),
        process("SiglipImageProcessor", {"size": square, "resample": 3}, "rgba.png"),
        process("SiglipImageProcessor", {"size": square, "do_rescale": False}, "noise.png"),
        process("Gemma3ImageProcessor", {"size": square, "rescale_factor": 0.00392156862745098}, "orientation_6.png"),
    ]
    expected = {"made_with": f"Pillow {PIL.__version__}, transformers {transformers.__version__}",
                "reading": {name: picture_json(load(name)) for name in names}, "resizing": resizing, "processing": processing}
    (FOLDER / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    main()
