# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Random messages that both sides make from the same seed, so that the receiver knows each byte that it must get."""

import random
from dataclasses import dataclass

LARGEST = 1 << 16


@dataclass(frozen=True)
class Message:
    data: bytes
    send_pieces: tuple[int, ...]
    recv_pieces: tuple[int, ...]


def split(draw: random.Random, length: int, most: int) -> tuple[int, ...]:
    """Lengths of at most `most` pieces that sum up to the length; some may be empty."""
    cuts = sorted(draw.randint(0, length) for _ in range(draw.randint(0, most - 1)))
    return tuple(end - begin for begin, end in zip([0, *cuts], [*cuts, length], strict=True))


def messages(seed: int, count: int, most_pieces: int):
    """Sizes are spread evenly over the powers of two, and include the borders of packets and pages."""
    draw = random.Random(seed)
    for _ in range(count):
        border = 1 << draw.randint(0, LARGEST.bit_length() - 1)
        length = min(LARGEST, max(0, draw.choice((border - 1, border, border + 1, draw.randint(0, border)))))
        yield Message(draw.randbytes(length), split(draw, length, most_pieces), split(draw, length, most_pieces))


def place(draw: random.Random, pieces: tuple[int, ...], buffer: int) -> list[int]:
    """An offset for each piece: in a random order, with random gaps, without overlaps."""
    order = list(range(len(pieces)))
    draw.shuffle(order)
    slack = buffer - sum(pieces)
    cuts = sorted(draw.randint(0, slack) for _ in pieces)
    offsets = [0] * len(pieces)
    used = 0
    for cut, number in zip(cuts, order, strict=True):
        offsets[number] = cut + used
        used += pieces[number]
    return offsets
