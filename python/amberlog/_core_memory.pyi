"""The part of the compiled core that memory search is built on."""

from typing import final

__all__ = ["BlockHit"]

@final
class BlockHit:
    """A block that a memory search found, with all that is known of it."""

    @property
    def number(self) -> int:
        """Its number in the index, the same whenever the index is made."""

    @property
    def block_id(self) -> str:
        """Its name."""

    @property
    def agent(self) -> str:
        """The agent, or the channel of a message."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def round(self) -> int:
        """The round of its agent, from 1."""

    @property
    def block(self) -> int:
        """Its place within the round, from 0."""

    @property
    def turn(self) -> int | None:
        """The turn of its event."""

    @property
    def ts(self) -> float:
        """When it happened, in seconds since 1970."""

    @property
    def event_id(self) -> int:
        """The id of its event; 0 for a message of a channel."""

    @property
    def event_key(self) -> str:
        """The key of its row."""

    @property
    def tool_name(self) -> str:
        """The tool that was called."""

    @property
    def channel(self) -> str:
        """The channel of a message, or of what a message started."""

    @property
    def content(self) -> str:
        """Its text, whole."""

    @property
    def snippet(self) -> str:
        """The part that holds words of the query, these marked."""

    @property
    def score(self) -> float:
        """How well it fits; higher is better."""

    @property
    def keyword_score(self) -> float | None:
        """How well its words fit; None when they did not find it."""

    @property
    def keyword_rank(self) -> int | None:
        """Its rank among what the words found, from 0."""

    @property
    def vector_score(self) -> float | None:
        """How well its meaning fits; None when that did not find it."""

    @property
    def vector_rank(self) -> int | None:
        """Its rank among what the meaning found, from 0."""
