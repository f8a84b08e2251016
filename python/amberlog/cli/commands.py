"""What may be typed: arguments, options, exit codes."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import typer

import amberlog
from amberlog._asking import Question, moment_of
from amberlog._building import EmbedderSettings
from amberlog.cli import changing, reading, returning, searching
from amberlog.cli import demo as demonstration
from amberlog.cli import directory as listing
from amberlog.cli.chat_commands import chat
from amberlog.cli.terminal import complain, drop_stdout, prepare_streams
from amberlog.cli.terminal import typed as _typed
from amberlog.errors import SessionError

Job = Callable[[], int]
"""What a command does, once its arguments are understood; returns the exit code."""

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
LARGEST = 2**31 - 1

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Reads the sessions that AI agents left behind. Nothing is ever changed by reading.",
)

app.add_typer(chat, name="chat")

Session = Annotated[str, typer.Argument(help="A session's file, or its exact name.")]
Json = Annotated[bool, typer.Option("--json", help="Print strict JSON.")]
SessionOrLast = Annotated[str | None, typer.Argument(help="A session's file, or its exact name.")]
Last = Annotated[bool, typer.Option("--last", help="The session that was written last.")]
Directory = Annotated[
    Path | None, typer.Option("--dir", help="The session directory; by default the configured one.")
]
Everywhere = Annotated[bool, typer.Option("--all", help="All sessions of the directory.")]
Agent = Annotated[str | None, typer.Option("--agent", help="Only this agent.")]


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> Job | None:
    """Prints the version when asked for it."""
    if show_version:
        sys.stdout.write(f"amberlog {amberlog.__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.BadParameter("a command is missing; try 'amberlog --help'")
    return None


@app.command()
def show(
    session: Session,
    *,
    messages: Annotated[
        int, typer.Option(help="How many messages of each agent.", min=0, max=LARGEST)
    ] = 6,
    as_json: Json = False,
) -> Job:
    """Prints what a session says about itself, its counts and its last messages."""
    return partial(reading.show, session, messages, as_json=as_json)


@app.command()
def events(
    session: Session,
    *,
    agent: Agent = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--types", "--type", help="Only these types, separated by commas."),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(help="Only events with an id above this one.", min=0, max=2**63 - 1),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most this many.", min=0, max=LARGEST)
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Newest first.")] = False,
    as_json: Json = False,
) -> Job:
    """Prints events, one a line, oldest first."""
    return partial(
        reading.events,
        session,
        agent=agent and _typed(agent),
        types=_split(types),
        since=since,
        limit=limit,
        reverse=reverse,
        as_json=as_json,
    )


@app.command()
def search(  # noqa: PLR0913  # one for each option
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="A session; left out with --all.")
    ],
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help='Words; a phrase stands in "double quotes".'),
    ] = None,
    *,
    everywhere: Everywhere = False,
    directory: Directory = None,
    by_session: Annotated[
        bool, typer.Option("--by-session", help="With --all: one hit a session.")
    ] = False,
    mode: Annotated[
        str, typer.Option(help="fts (words), semantic (meaning), hybrid, or auto.")
    ] = "auto",
    agent: Agent = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", "--kinds", help="Only these kinds of blocks, separated by commas."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", "--types", help="Only events of these types, by their words."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from this time on: ISO 8601, or seconds since 1970.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only up to this time.")] = None,
    all_branches: Annotated[
        bool, typer.Option("--all-branches", help="Also what was taken back.")
    ] = False,
    k: Annotated[int, typer.Option("-k", help="At most this many.", min=0, max=LARGEST)] = 10,
    as_json: Json = False,
) -> Job:
    """Prints what matches a query, best first; brings the index level."""
    question = Question(
        _typed(session if query is None else query),
        mode,
        k,
        agent and _typed(agent),
        tuple(_split(kinds)),
        moment_of("since", since),
        moment_of("until", until),
        all_branches,
    )
    if everywhere:
        if query is not None or types or all_branches:
            raise typer.BadParameter("--all goes with neither a session, --type nor --all-branches")
        return partial(
            searching.search_all, directory, question, by_session=by_session, as_json=as_json
        )
    if query is None or directory is not None or by_session:
        raise typer.BadParameter("a query is missing, or --all that goes with --dir, --by-session")
    if types:
        return partial(reading.search, session, question, _split(types), as_json=as_json)
    return partial(searching.search, session, question, as_json=as_json)


@app.command()
def embedding(
    session: SessionOrLast = None,
    *,
    everywhere: Everywhere = False,
    directory: Directory = None,
    provider: Annotated[
        str, typer.Option(help="static (built in), model2vec, sentence-transformer, onnx, api, …")
    ] = "auto",
    model: Annotated[str | None, typer.Option(help="The model's name or path.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="The size of the vectors.", min=1, max=LARGEST)
    ] = None,
    as_json: Json = False,
) -> Job:
    """Makes the vectors that a session lacks, so that it is found by meaning too."""
    settings = EmbedderSettings(provider, model and _typed(model), dimensions)
    if everywhere == (session is not None) or (directory is not None and not everywhere):
        raise typer.BadParameter("either a session, or --all with or without --dir")
    if session is None:
        return partial(searching.embedding_all, directory, settings, as_json=as_json)
    return partial(searching.embedding, session, settings, as_json=as_json)


@app.command("mcp")
def mcp_server(
    session: SessionOrLast = None,
    *,
    directory: Directory = None,
) -> Job:
    """Serves the memory of one session, or of all in a directory, to agents, by MCP on stdio."""
    if session is not None and directory is not None:
        raise typer.BadParameter("a session or --dir is served, not both")
    return partial(searching.mcp_server, session, directory)


@app.command()
def verify(session: Session, *, as_json: Json = False) -> Job:
    """Reads every record and checks it; the exit code is 1 when something is wrong."""
    return partial(reading.verify, session, as_json=as_json)


@app.command()
def backup(
    session: Session,
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    *,
    as_json: Json = False,
) -> Job:
    """Copies a session whole, while others may write to it."""
    return partial(reading.backup, session, target, as_json=as_json)


@app.command("list")
def list_sessions(  # noqa: PLR0913  # one for each option
    *,
    directory: Directory = None,
    search: Annotated[str, typer.Option(help="Only sessions that hold all of these words.")] = "",
    status: Annotated[str | None, typer.Option(help="Only this status.")] = None,
    config_type: Annotated[
        str | None, typer.Option("--type", "--config-type", help="Only this kind.")
    ] = None,
    node_id: Annotated[str | None, typer.Option("--node", help="Only this node.")] = None,
    sort: Annotated[
        str, typer.Option(help="last_active, created_at, name, status or relevance.")
    ] = "last_active",
    order: Annotated[str, typer.Option(help="desc or asc.")] = "desc",
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=LARGEST)] = 20,
    offset: Annotated[int, typer.Option(help="Pass over so many.", min=0, max=2**63 - 1)] = 0,
    cursor: Annotated[
        str | None, typer.Option(help="Go on after the page that ended with this.")
    ] = None,
    as_json: Json = False,
) -> Job:
    """Prints the sessions of a directory, the one last active first."""
    return partial(
        listing.list_sessions,
        directory,
        listing.Wanted(
            search=_typed(search),
            status=status and _typed(status),
            config_type=config_type and _typed(config_type),
            node_id=node_id and _typed(node_id),
            sort=sort,
            order=order,
            limit=limit,
            offset=offset,
            cursor=cursor,
        ),
        as_json=as_json,
    )


@app.command()
def delete(
    name: Annotated[str, typer.Argument(help="The exact name of a session, or of its file.")],
    *,
    directory: Directory = None,
    as_json: Json = False,
) -> Job:
    """Deletes a session with its log, its artifacts and its entry in the index."""
    return partial(listing.delete, name, directory, as_json=as_json)


@app.command()
def stats(*, directory: Directory = None, as_json: Json = False) -> Job:
    """Prints counts over all sessions of a directory, and what they take on disk."""
    return partial(listing.stats, directory, as_json=as_json)


@app.command()
def reindex(
    *,
    directory: Directory = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read every session, changed or not.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="So many threads read.", min=1, max=1024)
    ] = None,
    as_json: Json = False,
) -> Job:
    """Brings the index of a directory level with its sessions."""
    return partial(listing.reindex, directory, full=full, workers=workers, as_json=as_json)


@app.command()
def serve(
    *,
    directory: Directory = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="On which port.", min=0, max=65535)] = 8765,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the directory, without being asked to look.")
    ] = False,
) -> Job:
    """Serves the sessions of a directory over HTTP; AMBERLOG_TOKEN is the token it asks for."""
    return partial(listing.serve, directory, host=host, port=port, watch=watch)


@app.command()
def fork(
    session: Session,
    *,
    at: Annotated[
        int, typer.Option("--at", help="The id of the last event to keep.", min=1, max=2**63 - 1)
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="What to call the new session.")
    ] = None,
    drop_trailing: Annotated[
        bool, typer.Option("--drop-trailing", help="Leave that event out.")
    ] = False,
    edit: Annotated[
        str | None, typer.Option("--edit", help="What the user is to have said in that event.")
    ] = None,
    as_json: Json = False,
) -> Job:
    """Makes a new session of one as it stood at an event."""
    if drop_trailing and edit is not None:
        raise typer.BadParameter("an event is dropped or edited, not both")
    return partial(
        changing.fork,
        session,
        at,
        name=name and _typed(name),
        drop_trailing=drop_trailing,
        edit=None if edit is None else _typed(edit),
        as_json=as_json,
    )


@app.command()
def resume(
    session: SessionOrLast = None,
    *,
    last: Last = False,
    agent: Agent = None,
    branch: Annotated[
        list[str] | None,
        typer.Option("--branch", help="The branch to show of a turn, as TURN:BRANCH."),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="How many events of each agent's history.", min=0, max=LARGEST)
    ] = 200,
    as_json: Json = False,
) -> Job:
    """Prints the end of the history, and what a resume would restore and repair."""
    return partial(
        returning.resume,
        _one_of(session, last=last),
        agent and _typed(agent),
        [_typed(name) for name in branch or []],
        limit,
        as_json=as_json,
    )


@app.command()
def migrate(
    session: Annotated[str, typer.Argument(help="A session, or a directory of sessions.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: Json = False,
) -> Job:
    """Makes sessions in the present format of old ones, which stay as they are."""
    return partial(changing.migrate, session, dry_run=dry_run, as_json=as_json)


@app.command()
def branches(
    session: SessionOrLast = None,
    *,
    last: Last = False,
    agent: Agent = None,
    as_json: Json = False,
) -> Job:
    """Prints the turns that have several branches, and which is shown."""
    return partial(
        returning.branches,
        _one_of(session, last=last),
        agent and _typed(agent),
        as_json=as_json,
    )


@app.command()
def demo(
    *,
    events_wanted: Annotated[
        int, typer.Option("--events", help="About when to kill the writer.", min=50, max=LARGEST)
    ] = 2_000,
    seed: Annotated[int | None, typer.Option(help="Repeats what was random.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Leave the session in this file.")] = None,
    as_json: Json = False,
) -> Job:
    """Records a session, kills its writer, and shows that nothing acknowledged is lost."""
    return partial(demonstration.demo, events_wanted, seed=seed, keep=keep, as_json=as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code.

    0: done. 1: the session is missing, damaged, or something was found wrong. 2: the arguments
    are wrong. An error is one line on standard error.
    """
    prepare_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        drop_stdout()
        return 0
    except SessionError as error:
        complain(str(error))
        return FAILED
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED
    except ValueError as error:
        complain(str(error))
        return MISUSED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # The commands only say what is to be done: typer turns a closed pipe into an exit code
        # of its own, so the work is done outside of it.
        job: object = app(
            arguments if arguments is None else list(arguments),
            prog_name="amberlog",
            standalone_mode=False,
        )
    except _usage_error() as error:
        format_message: object = getattr(error, "format_message", None)
        complain(str(format_message()) if callable(format_message) else str(error))
        return MISUSED
    return cast("Job", job)() if callable(job) else int(cast("int", job) or 0)


def _usage_error() -> type[Exception]:
    # Some releases of typer carry a copy of click, others depend on it; the class above
    # `BadParameter` is that of all usage errors in either.
    return cast("type[Exception]", typer.BadParameter.__mro__[1])


def _one_of(session: str | None, *, last: bool) -> str | None:
    """Returns the session that was named; None when the last one is asked for."""
    if last == (session is not None):
        raise typer.BadParameter("either a session or --last must be given")
    return session


def _split(names: list[str] | None) -> list[str]:
    return [_typed(name) for listed in names or [] for name in listed.split(",") if name]
