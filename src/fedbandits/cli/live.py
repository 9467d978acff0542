"""`fedbandits live`: agents that live apart: run, looked at, and given keys."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from . import live_tables, tables
from .messages import say, terminal

live_app = typer.Typer(no_args_is_help=True)

AllowModule = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="Allow the file to name this Python module, whose code then runs; repeatable.",
    ),
]


@live_app.callback()
def live() -> None:
    """Run live agents, inspect them and make their keys."""


@live_app.command()
def show(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL.db", help="What an agent keeps.")],
    json: Annotated[bool, typer.Option("--json", help="For machines, with all tickets.")] = False,
) -> None:
    """Print the contents of a journal, also while its agent runs.

    Counts, open tickets, the values of the leaves by arm, and the ledger: for each neighbour the
    incarnations of both ends, the number of the last flow and how large it is.

    \b
    Examples:
      fedbandits live show shop3.db
      fedbandits live show shop3.db --json
    """  # noqa: D301
    import msgspec

    from fedbandits.live.journal import read_journal
    from fedbandits.live.journal.summary import summary

    found = summary(read_journal(journal), time.time())
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for line in live_tables.journal_lines(found):
        say(line)
    console = terminal()
    for table in live_tables.journal_tables(found):
        console.print(table)


@live_app.command()
def backup(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL.db", help="What an agent keeps.")],
    copy: Annotated[Path, typer.Argument(metavar="COPY.db", help="Must not be there yet.")],
    without_log: Annotated[
        bool,
        typer.Option("--without-log", help="Copy a journal whose -wal is lost; see Operations."),
    ] = False,
) -> None:
    """Copy a journal and verify the copy, also while its agent runs.

    All that was acknowledged before is in the copy, which appears whole or not at all. With
    --without-log the copy lacks the last acknowledged choices and observations.

    \b
    Example:
      fedbandits live backup north.db backups/north-monday.db
    """  # noqa: D301
    from fedbandits.live.journal import back_up

    saved = back_up(journal, copy, without_log=without_log).saved
    rounds = 0 if saved.state is None else saved.state.rounds
    say(f"{copy} holds {tables.counted(rounds, 'choice')}; keep it as safe as the keys")


@live_app.command()
def up(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml")],
    folder: Annotated[
        Path | None,
        typer.Option(help="Keeps keys, journals and logs; a temporary one by default."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0: any.")] = 0,
    pace: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Mean seconds between two choices of an agent; by default that of [demo], or 0.5.",
        ),
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Run a whole federation on this machine; Ctrl-C ends it.

    A process for each member, with certificates of their own, on the loopback address, and one page
    of all. The section [demo] of the file says what arms lose: means = [...], one for each arm, or
    a problem of ours by name (most need [sim]), of which each agent replays its own part; without
    it nobody chooses until you do.

    \b
    Examples:
      fedbandits live up examples/federation.toml
      fedbandits live up examples/cdn.toml
    """  # noqa: D301
    import asyncio
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(_up(federation, folder or Path(temporary), port, pace, allow_module or []))


async def _up(
    file: Path, folder: Path, port: int, pace: float | None, allow_modules: list[str]
) -> None:
    import asyncio
    import secrets
    import signal

    from fedbandits.live import Federation
    from fedbandits.live.federation.file import read_demo
    from fedbandits.live.operations.local_cluster import (
        Up,
        demo_losses,
        demo_pace,
        private_folder,
        started,
        stop_all,
    )
    from fedbandits.live.service.federation_view import FederationView

    federation = Federation.read(file, allow_modules=allow_modules)
    demo = read_demo(file)
    pace = pace or demo_pace(demo)
    private_folder(folder)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks: list[asyncio.Task[None]] = []
    with started(federation, file, folder, allow_modules) as members:
        running = Up(federation, members)
        token = secrets.token_urlsafe(24)
        view = FederationView(running.tell, token)
        url = await view.start(port)
        say(f"{len(members)} agents; look at {url}/#token={token}")
        await running.ready()
        tasks.append(asyncio.create_task(running.watch()))
        if demo:
            losses = await asyncio.to_thread(
                demo_losses, federation, demo, file.parent, allow_modules
            )
            tasks.append(asyncio.create_task(running.play(losses, pace)))
        else:
            say(f"{file} has no [demo]: nobody chooses until you do, by the agents' services:")
            for member in members:
                say(f"  {member.name}: {member.url}, token in {member.token}")
        say("all agents run; Ctrl-C ends them")
        await asyncio.wait(
            [asyncio.create_task(stop.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED
        )
        await view.stop()
        for task in tasks:
            if task.done():
                await task  # it should have gone on: say why it did not
            task.cancel()
        await asyncio.to_thread(stop_all, members)  # the loop goes on: tasks hear that they end
    say("all agents have stopped")


@live_app.command()
def keys(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml")],
    out: Annotated[Path, typer.Option("--out", help="A folder, which is made.")] = Path("keys"),
    days: Annotated[float, typer.Option(min=1, help="That certificates are valid.")] = 365,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEMBER=HOST",
            help="Add a name or address to the certificate of a member; repeatable.",
        ),
    ] = None,
    renew: Annotated[
        str | None, typer.Option(metavar="MEMBER", help="A new certificate for one member.")
    ] = None,
    add: Annotated[
        str | None, typer.Option(metavar="MEMBER", help="Keys for one that is new.")
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Make an authority, and a key and certificate for each member.

    Copy each member's folder to its site. Keep ca.key: it can make members. A certificate is valid
    for the member's host in [addresses] and each --host. --renew keeps the earlier hosts.

    \b
    Examples:
      fedbandits live keys federation.toml --out keys
      fedbandits live keys federation.toml --out keys --renew north
      fedbandits live keys federation.toml --host north=bandits.example.org --host north=10.1.2.3
    """  # noqa: D301
    from fedbandits.live import Federation
    from fedbandits.live.federation import keys as making
    from fedbandits.live.federation import membership

    known = Federation.read(federation, allow_modules=allow_module or [])
    for name in (renew, add):
        if name is not None:
            membership.require_member(federation, known, name)
    hosts = {
        name: [address.rpartition(":")[0].strip("[]")] for name, address in known.addresses.items()
    }
    for given in host or []:
        name, equals, further = given.rpartition("=")
        if not equals:
            example = f"{known.members[0]}={given}"
            raise ValueError(f"--host {given}: write MEMBER=HOST, for example {example}")
        membership.require_member(federation, known, name)
        if name != (renew or add or name):
            raise ValueError(f"--host {given}: only {renew or add} gets a certificate now")
        hosts.setdefault(name, []).append(further)
    if renew is not None:
        making.renew(out, renew, hosts.get(renew, []), days)
        say(f"{out / renew / 'cert.pem'} is new; copy it to the site, which needs no restart")
    elif add is not None:
        making.add_member(out, add, hosts.get(add, making.LOOPBACK), days)
        say(f"{out / add} is new")
    else:
        making.write_keys(known, out, hosts, days)
        say(f"keys of {len(known.members)} members in {out}; ca.key is yours alone: keep it safe")


@live_app.command()
def join(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml")],
    name: Annotated[str, typer.Argument(help="Of the new member.")],
    link: Annotated[list[str], typer.Option(metavar="MEMBER", help="Whom it hears; repeatable.")],
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where its neighbours reach it, if they can."),
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Add a member to a federation's file and print the next steps.

    The file's comments and layout stay, and its version is raised by one.

    \b
    Example:
      fedbandits live join federation.toml west --link north --address west.example:7447
    """  # noqa: D301
    from fedbandits.live.federation import membership

    change = membership.join(federation, name, link, address, allow_module or [])
    for line in live_tables.join_lines(federation, name, change):
        say(line)


@live_app.command()
def leave(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml")],
    name: Annotated[str, typer.Argument(help="Of the member that goes.")],
    allow_module: AllowModule = None,
) -> None:
    """Remove a member from a federation's file; print the next steps.

    Refused where the member is the only way between others. The file's comments and layout stay,
    and its version is raised by one.

    \b
    Example:
      fedbandits live leave federation.toml west
    """  # noqa: D301
    from fedbandits.live.federation import membership

    change = membership.leave(federation, name, allow_module or [])
    for line in live_tables.leave_lines(federation, name, change):
        say(line)


@live_app.command()
def agent(
    file: Annotated[Path, typer.Argument(metavar="AGENT.toml", help="One member's file.")],
) -> None:
    """Run one member of a federation. Its log lines are JSON.

    The agent stops gracefully at SIGTERM or Ctrl-C.

    \b
    Example of the file:
      name = "north"
      federation = "federation.toml"
      keys = "keys/north"
      [service]
      address = "127.0.0.1:8080"
    """  # noqa: D301
    import asyncio

    from fedbandits.live.agent.group_commit import StoppedError
    from fedbandits.live.operations.site import log_as_json, read_site, run_site

    site = read_site(file)
    log_as_json()
    try:
        asyncio.run(run_site(site))
    except StoppedError as error:
        raise ValueError(str(error)) from error


@live_app.command()
def status(
    url: Annotated[str, typer.Argument(help="Of the service: https://site3:8443.")],
    token: Annotated[Path, typer.Option(help="The file with its token.")],
    authority: Annotated[
        Path | None, typer.Option("--ca", help="ca.pem of the federation, for https.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show an agent's choice, mean losses and neighbours.

    \b
    Example:
      fedbandits live status http://127.0.0.1:8080 --token north.token
    """  # noqa: D301
    import json as encoding

    from fedbandits.live.operations.client import Client

    with Client(url, token.read_text(encoding="utf-8").strip(), authority) as client:
        found = client.ask("/v1/status")
    if json:
        typer.echo(encoding.dumps(found))
        return
    for line in live_tables.status_lines(found):
        say(line)
    console = terminal()
    if (losses := live_tables.losses_table(found)) is not None:
        console.print(losses)
    console.print(live_tables.neighbours_table(found))
