"""TensorBoard's event files: scalars, without TensorBoard, which Debian does not have.

A file is a TFRecord of protobuf messages (tensorflow/core/util/event.proto, summary.proto).
"""

from __future__ import annotations

import struct
from types import TracebackType
from typing import BinaryIO, List, Optional, Type


def _crc_table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # CRC-32C, reflected
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _text(field: int, data: bytes) -> bytes:
    """A field whose length comes first: text, or a message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


class EventFile:
    """A new file of scalars."""

    def __init__(self, path: str, began: float) -> None:
        """began  seconds since 1970 of the first event"""
        self._began = began
        self._file: BinaryIO = open(path, "wb")
        self._record(_double(1, began) + _text(3, b"brain.Event:2"))

    def scalar(self, tag: str, seconds: float, step: int, value: float) -> None:
        """seconds  since the run began"""
        one = _text(1, tag.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value)
        when = _double(1, self._began + seconds) + _varint(2 << 3) + _varint(step)
        self._record(when + _text(5, _text(1, one)))

    def _record(self, event: bytes) -> None:
        size = struct.pack("<Q", len(event))
        self._file.write(size + _masked_crc(size) + event + _masked_crc(event))

    def __enter__(self) -> EventFile:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._file.close()
