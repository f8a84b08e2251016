"""What is around the sessions that were saved."""

__all__: list[str] = []
