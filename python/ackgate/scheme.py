"""Schemes written in Python: slow, for trying an idea and for teaching.

Every packet at a receiver makes a few calls into the interpreter: some hundred thousand packets a second instead of
millions, and one core, since the interpreter's lock is held all the time. A scheme that is worth sweeping is worth
writing in Rust, beside the others.
"""

from __future__ import annotations

from ._native import Segment

__all__ = ["Scheme", "Segment"]


class Scheme:
    """A scheme at one receiver, between its TCP and the network. Derive from it and override what it needs.

    Times are nanoseconds since the run's begin, flows are small whole numbers. This one lets everything pass.
    """

    def arrived(self, now: int, flow: int, segment: Segment) -> int | None:
        """A segment came from the network. It goes on to TCP at once.

        Returns:
            None to leave it as it is, or a new value for its window field, 0 to 65535, unscaled.
        """
        return None

    def leaving(self, now: int, flow: int, segment: Segment, packet: int) -> bool | int | None:
        """TCP sent a segment towards the network.

        Args:
            packet: A handle for `release`, if it is held.

        Returns:
            False to hold it; None or True to let it pass; a number to let it pass with that window field.
        """
        return None

    def release(self, now: int) -> int | None:
        """Asked after every other call, until it returns None.

        Returns:
            A held packet that goes on now, or None.
        """
        return None

    def wake(self) -> int | None:
        """When `release` is to be asked even if nothing happens, in nanoseconds since the run's begin.

        Returns:
            A time, or None when time alone changes nothing.
        """
        return None
