"""What may be typed behind `amberlog chat`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from amberlog.cli import chat_moving, chat_reading
from amberlog.cli.chat_place import Place
from amberlog.cli.terminal import typed

Job = Callable[[], int]
LARGEST = 2**31 - 1

chat = typer.Typer(
    rich_markup_mode=None, help="Chat sessions: messages by the id of their conversation."
)

Id = Annotated[str, typer.Argument(help="The id of a session.")]
Json = Annotated[bool, typer.Option("--json", help="Print strict JSON.")]
Directory = Annotated[
    Path | None,
    typer.Option("--dir", help="The directory of JSON sessions; by default the configured one."),
]
Database = Annotated[
    Path | None, typer.Option("--db", help="The database of a transcript store, in its place.")
]


@chat.callback()
def chat_sessions() -> None:
    """Chat sessions: messages by the id of their conversation."""


@chat.command("list")
def list_chats(
    *,
    directory: Directory = None,
    database: Database = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=LARGEST)] = 20,
    as_json: Json = False,
) -> Job:
    """Prints the sessions, the one last written first."""
    place = Place(directory, database)
    return partial(chat_reading.list_chats, place, agent and typed(agent), limit, as_json=as_json)


@chat.command()
def show(
    session_id: Id,
    *,
    directory: Directory = None,
    database: Database = None,
    messages: Annotated[
        int, typer.Option(help="How many of the newest messages.", min=0, max=LARGEST)
    ] = 20,
    as_json: Json = False,
) -> Job:
    """Prints what a session says of itself, and its newest messages."""
    place = Place(directory, database)
    return partial(chat_reading.show, place, typed(session_id), messages, as_json=as_json)


@chat.command()
def search(
    query: Annotated[str, typer.Argument(help="Words; no character has a meaning of its own.")],
    *,
    directory: Directory = None,
    database: Database = None,
    k: Annotated[int, typer.Option("-k", help="At most this many.", min=1, max=LARGEST)] = 10,
    window: Annotated[
        int, typer.Option(help="Messages around the best one.", min=0, max=LARGEST)
    ] = 2,
    as_json: Json = False,
) -> Job:
    """Prints the sessions that best hold the words, best first."""
    place = Place(directory, database)
    return partial(chat_reading.search, place, typed(query), k, window, as_json=as_json)


@chat.command()
def route(
    outside: Annotated[str, typer.Argument(help="The id outside that leads to a session.")],
    *,
    directory: Directory = None,
    database: Database = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Let it lead to this session from now on.")
    ] = None,
    agent_id: Annotated[
        str | None, typer.Option("--agent-id", help="And the session belong to this agent.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Let it lead nowhere.")] = False,
    as_json: Json = False,
) -> Job:
    """Prints the session that an id outside leads to, or changes that."""
    if clear and to is not None:
        raise typer.BadParameter("an id leads somewhere or nowhere, not both")
    if agent_id is not None and to is None:
        raise typer.BadParameter("--agent-id goes with --to")
    place = Place(directory, database)
    if to is not None:
        link = partial(chat_reading.link, place, typed(outside), typed(to))
        return partial(link, agent_id and typed(agent_id), as_json=as_json)
    job = chat_reading.unlink if clear else chat_reading.route
    return partial(job, place, typed(outside), as_json=as_json)


@chat.command()
def checkpoint(
    session_id: Id,
    *,
    directory: Directory = None,
    database: Database = None,
    summary: Annotated[
        str | None, typer.Option(help="What stands in for all messages so far from now on.")
    ] = None,
    as_json: Json = False,
) -> Job:
    """Prints the checkpoint of a session, or makes one."""
    place = Place(directory, database)
    words = None if summary is None else typed(summary)
    return partial(chat_reading.checkpoint, place, typed(session_id), words, as_json=as_json)


@chat.command()
def verify(*, directory: Directory = None, database: Database = None, as_json: Json = False) -> Job:
    """Reads every session; the exit code is 1 when one cannot be read."""
    return partial(chat_reading.verify, Place(directory, database), as_json=as_json)


@chat.command()
def export(
    session_ids: Annotated[
        list[str] | None, typer.Argument(help="Sessions by their ids; without one, all.")
    ] = None,
    *,
    directory: Directory = None,
    database: Database = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; it must not exist.")
    ] = None,
    as_json: Json = False,
) -> Job:
    """Writes sessions in the portable form, as JSON."""
    ids = [typed(one) for one in session_ids or []]
    return partial(chat_moving.export, Place(directory, database), ids, output, as_json=as_json)


@chat.command("import")
def import_chats(
    file: Annotated[Path, typer.Argument(help="What `export` wrote.")],
    *,
    directory: Directory = None,
    database: Database = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace sessions that are there.")
    ] = False,
    keep_routes: Annotated[
        bool, typer.Option("--keep-routes", help="Let ids outside lead to them again.")
    ] = False,
    as_json: Json = False,
) -> Job:
    """Adds the sessions of an export; the exit code is 1 when one was not added."""
    place = Place(directory, database)
    how = chat_moving.Importing(overwrite=overwrite, keep_routes=keep_routes)
    return partial(chat_moving.import_chats, place, file, how, as_json=as_json)


@chat.command()
def migrate(
    source: Annotated[Path, typer.Argument(help="The home that the sessions are in.")],
    target: Annotated[Path, typer.Argument(help="The home that they are copied to.")],
    *,
    from_kind: Annotated[
        str | None, typer.Option("--from", help="json, transcript or bundle; else it is looked at.")
    ] = None,
    to_kind: Annotated[
        str | None, typer.Option("--to", help="json, transcript or bundle; else by the name.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace sessions that differ there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: Json = False,
) -> Job:
    """Copies all sessions of a home to another; what is there, equal, is left."""
    ends = chat_moving.Ends(source, target, from_kind, to_kind)
    return partial(chat_moving.migrate, ends, overwrite=overwrite, dry_run=dry_run, as_json=as_json)


__all__ = ["chat"]
