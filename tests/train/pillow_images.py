"""Writes images of every kind into a directory, and beside each what Pillow reads of it.

usage: pillow_images.py DIRECTORY
NAME.raw holds one line, "channels height width bits tolerance side", then the pixels, channel after
channel, little-endian. side: the image is resized to it; 0: as it is.
"""
import random
import struct
import sys
import zlib
from pathlib import Path

from PIL import Image, ImageOps

ORIENTATION = 0x0112
directory = Path(sys.argv[1])
chance = random.Random(7)


def noise(mode, width, height):
    """An image whose neighbours differ little, so that JPEG keeps its look."""
    bands = []
    for _ in range(len(mode)):
        a, b, c = (chance.uniform(-9, 9) for _ in range(3))
        bands.append(Image.frombytes("L", (width, height), bytes(
            int(128 + a * x + b * y + c * ((x + y) % 3)) % 256
            for y in range(height) for x in range(width))))
    return bands[0] if mode == "L" else Image.merge(mode, bands)


def on_white(image):
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def planes(image):
    return b"".join(band.tobytes() for band in image.split())


def expect(name, image, tolerance=0):
    """`image`: of mode L or RGB."""
    width, height = image.size
    expect_raw(name, len(image.mode) if image.mode == "RGB" else 1, height, width, 8, tolerance, 0,
               planes(image))


def expect_raw(name, channels, height, width, bits, tolerance, side, pixels):
    head = f"{channels} {height} {width} {bits} {tolerance} {side}\n"
    (directory / (name + ".raw")).write_bytes(head.encode() + pixels)


def read(name):
    return ImageOps.exif_transpose(Image.open(directory / name))


def plain():
    for mode in "L", "RGB", "CMYK":
        noise(mode, 21, 13).save(directory / f"{mode}.jpg", quality=92)
    noise("RGB", 40, 30).save(directory / "progressive.jpg", progressive=True)
    for mode in "L", "RGB":
        noise(mode, 9, 5).save(directory / f"{mode}.png")
    noise("L", 9, 5).convert("1").save(directory / "bits.png")
    noise("RGB", 9, 5).quantize(200).save(directory / "palette.png")
    noise("RGB", 9, 5).quantize(3).save(directory / "palette-2-bits.png", bits=2)
    noise("RGB", 9, 5).save(directory / "lossless.webp", lossless=True)
    noise("RGB", 33, 17).save(directory / "lossy.webp", quality=80)
    noise("RGB", 9, 5).save(directory / "a-jpeg-by-another-name.png", "JPEG")
    for path in sorted(directory.glob("*.*")):
        image = Image.open(path)
        expect(path.name, image.convert("L" if image.mode in ("1", "L") else "RGB"))


def with_orientation():
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        for end, options in ("jpg", {}), ("png", {}), ("webp", {"lossless": True}):
            name = f"turned-{orientation}.{end}"
            noise("RGB", 12, 7).save(directory / name, exif=exif, **options)
            expect(name, read(name).convert("RGB"))


def transparent():
    for mode in "LA", "RGBA":
        name = f"{mode}.png"
        noise(mode, 9, 5).save(directory / name)
        image = on_white(Image.open(directory / name))
        expect(name, image.convert("L") if mode == "LA" else image, 1)
    noise("RGB", 9, 5).quantize(20).save(directory / "transparent-palette.png", transparency=3)
    noise("RGBA", 9, 5).save(directory / "RGBA.webp", lossless=True, exact=True)
    for name in "transparent-palette.png", "RGBA.webp":
        expect(name, on_white(Image.open(directory / name)), 1)


def png(name, width, height, bits, colour, rows, chunks=b""):
    """A PNG file that Pillow cannot write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    if chunks:
        chunks = chunk(chunks[:4], chunks[4:])
    (directory / name).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunks +
        chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def fine():
    """16 bits. Pillow keeps those of grey images; of colours it would keep 8."""
    width, height = 11, 6
    values = [chance.randrange(65536) for _ in range(width * height)]
    name = "fine-grey.png"
    png(name, width, height, 16, 0,
        [struct.pack(f">{width}H", *values[y * width:(y + 1) * width]) for y in range(height)])
    seen = list(Image.open(directory / name).getdata())
    assert seen == values
    expect_raw(name, 1, height, width, 16, 0, 0, struct.pack(f"<{len(seen)}H", *seen))
    # The same, made smaller: Pillow does that in floats.
    small = "fine-small.png"
    square = [v for y in range(height) for v in values[y * width:y * width + height]]
    png(small, height, height, 16, 0,
        [struct.pack(f">{height}H", *square[y * height:(y + 1) * height]) for y in range(height)])
    resized = Image.open(directory / small).convert("I").convert("F").resize(
        (4, 4), Image.Resampling.BILINEAR)
    expect_raw(small, 1, 4, 4, 16, 1, 4,
               struct.pack("<16H", *(int(v + 0.5) for v in resized.getdata())))
    colours = [chance.randrange(65536) for _ in range(3 * width * height)]
    png("fine-colours.png", width, height, 16, 2,
        [struct.pack(f">{3 * width}H", *colours[3 * y * width:3 * (y + 1) * width])
         for y in range(height)])
    expect_raw("fine-colours.png", 3, height, width, 16, 0, 0,
               b"".join(struct.pack(f"<{width * height}H", *colours[c::3]) for c in range(3)))
    # With opacity: v on white, by hand.
    pairs = [(chance.randrange(65536), chance.choice((0, 30000, 65535)))
             for _ in range(width * height)]
    png("fine-opacity.png", width, height, 16, 4,
        [b"".join(struct.pack(">2H", *pair) for pair in pairs[y * width:(y + 1) * width])
         for y in range(height)])
    expect_raw("fine-opacity.png", 1, height, width, 16, 1, 0, struct.pack(
        f"<{len(pairs)}H", *(round((v * a + 65535 * (65535 - a)) / 65535) for v, a in pairs)))


def with_gamma():
    rows = [bytes(chance.randrange(256) for _ in range(8)) for _ in range(4)]
    png("gamma.png", 8, 4, 8, 0, rows, b"gAMA" + struct.pack(">I", 100000))
    expect("gamma.png", Image.open(directory / "gamma.png"))


plain()
with_orientation()
transparent()
fine()
with_gamma()
