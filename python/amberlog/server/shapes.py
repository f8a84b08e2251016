"""What the routes refuse with, as the description of the API has it."""

from __future__ import annotations

from pydantic import BaseModel


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


Refusals = dict[int | str, dict[str, object]]

WRONG: Refusals = {400: {"model": Problem, "description": "An argument fits nothing here."}}
MISSING: Refusals = {
    404: {"model": Problem, "description": "There is no session of exactly that name."}
}
CONFLICT: Refusals = {
    409: {"model": Problem, "description": "The session is in use, or cannot be read."}
}
FORBIDDEN: Refusals = {403: {"model": Problem, "description": "The session may not be changed."}}
UNAUTHORIZED: Refusals = {
    401: {"model": Problem, "description": "The bearer token is missing or wrong."}
}

__all__ = ["CONFLICT", "FORBIDDEN", "MISSING", "UNAUTHORIZED", "WRONG", "Problem", "Refusals"]
