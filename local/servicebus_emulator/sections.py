"""The sections of an encoded message."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from local.servicebus_emulator.decoding import decode, decode_from, skip
from local.servicebus_emulator.errors import DecodeError
from local.servicebus_emulator.wire_types import Described, Value


class Section(IntEnum):
    """The sorts of sections, by their descriptors."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    SEQUENCE = 0x76
    VALUE = 0x77
    FOOTER = 0x78


_SECTIONS: Final[Mapping[int, Section]] = {int(section): section for section in Section}


def split_sections(data: bytes) -> list[tuple[Section, bytes]]:
    """Return the sort and the bytes of each section.

    Raises:
        DecodeError: The data is no message.
    """
    sections = []
    position = 0
    while position < len(data):
        end = skip(data, position)
        if data[position] != 0:
            raise DecodeError("a message section has no descriptor")
        descriptor, _ = decode_from(data, position + 1)
        section = _SECTIONS.get(descriptor) if isinstance(descriptor, int) else None
        if section is None:
            raise DecodeError(f"{descriptor!r} is no message section")
        sections.append((section, data[position:end]))
        position = end
    return sections


def section_value(section: bytes) -> Value:
    """Return what a section that was split off holds.

    Raises:
        DecodeError: It cannot be decoded.
    """
    described = decode(section)
    assert isinstance(described, Described), "every section begins with a descriptor"
    return described.value
