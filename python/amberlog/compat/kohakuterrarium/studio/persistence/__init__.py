"""The sessions that were saved."""

__all__: list[str] = []
