"""`fedbandits live`: commands for live agents, their federation and their keys."""

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
JournalFile = Annotated[Path, typer.Argument(metavar="JOURNAL.db", help="The journal of an agent.")]
FederationFile = Annotated[Path, typer.Argument(metavar="FEDERATION.toml")]


@live_app.callback()
def live() -> None:
    """Run live agents, inspect them and make their keys."""


@live_app.command()
def show(
    journal: JournalFile,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all tickets.")] = False,
) -> None:
    """Print the contents of a journal, also while its agent runs.

    Prints counts, open tickets, the values of the leaves by arm, and the ledger: for each neighbour
    the incarnations of both ends, and the number and size of the last flow.

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
    journal: JournalFile,
    copy: Annotated[Path, typer.Argument(metavar="COPY.db", help="A file that does not exist.")],
    without_log: Annotated[
        bool,
        typer.Option("--without-log", help="Copy a journal without its -wal; see Operations."),
    ] = False,
) -> None:
    """Copy a journal and verify the copy, also while its agent runs.

    The copy contains everything that was acknowledged before; an interrupted copy leaves no file.
    With --without-log the copy lacks the last acknowledged choices and observations.

    \b
    Example:
      fedbandits live backup north.db backups/north-monday.db
    """  # noqa: D301
    from fedbandits.live.journal import back_up

    saved = back_up(journal, copy, without_log=without_log).saved
    rounds = 0 if saved.state is None else saved.state.rounds
    say(f"{copy} contains {tables.counted(rounds, 'choice')}; protect it like the keys")


@live_app.command()
def up(
    federation: FederationFile,
    folder: Annotated[
        Path | None,
        typer.Option(help="For keys, journals and logs; by default a temporary folder."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0 for any.")] = 0,
    pace: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Mean seconds between two choices of an agent; by default pace in [demo], or 0.5.",
        ),
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Run a whole federation on this machine; Ctrl-C stops it.

    Starts one process for each member on the loopback address, with its own certificate, and one
    dashboard for all. The section [demo] of the file sets the losses: means = [...], one for each
    arm, or the name of a problem (most need [sim]), of which each agent replays its own part.
    Without [demo] the agents choose only at your requests.

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
    from fedbandits.live.federation.demo import demo_losses, demo_pace, read_demo
    from fedbandits.live.operations.local_cluster import (
        LocalCluster,
        make_private_folder,
        stop_members,
    )
    from fedbandits.live.service.federation_view import FederationView

    federation = Federation.read(file, allow_modules=allow_modules)
    demo = read_demo(file)
    pace = pace or demo_pace(demo)
    make_private_folder(folder)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks: list[asyncio.Task[None]] = []
    with LocalCluster.start(federation, file, folder, allow_modules) as cluster:
        token = secrets.token_urlsafe(24)
        view = FederationView(cluster.status, token)
        url = await view.start(port)
        say(f"{len(cluster.members)} agents; their dashboard is {url}/#token={token}")
        await cluster.ready()
        tasks.append(asyncio.create_task(cluster.watch()))
        if demo:
            losses = await asyncio.to_thread(
                demo_losses, federation, demo, file.parent, allow_modules
            )
            tasks.append(asyncio.create_task(cluster.play(losses, pace)))
        else:
            say(f"{file} has no [demo]; choose and observe by the services of the agents:")
            for member in cluster.members:
                say(f"  {member.name}: {member.url}, token in {member.token}")
        say("all agents run; Ctrl-C stops them")
        await asyncio.wait(
            [asyncio.create_task(stop.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED
        )
        await view.stop()
        for task in tasks:
            if task.done():
                await task  # raises the error that ended it
            task.cancel()
        # In a thread, so that the event loop can end the cancelled tasks.
        await asyncio.to_thread(stop_members, cluster.members)
    say("all agents have stopped")


@live_app.command()
def keys(
    federation: FederationFile,
    out: Annotated[Path, typer.Option("--out", help="The folder of the keys.")] = Path("keys"),
    days: Annotated[float, typer.Option(min=1, help="Validity of the certificates.")] = 365,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEMBER=HOST",
            help="Add a name or address to the certificate of a member; repeatable.",
        ),
    ] = None,
    renew: Annotated[
        str | None, typer.Option(metavar="MEMBER", help="Make a new certificate for one member.")
    ] = None,
    add: Annotated[
        str | None, typer.Option(metavar="MEMBER", help="Make keys for a new member.")
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Make an authority, and a key and certificate for each member.

    Copy each member's folder to its site. Keep ca.key secret: it can certify new members. A
    certificate is valid for the member's host in [addresses] and each --host. --renew keeps the
    earlier hosts.

    \b
    Examples:
      fedbandits live keys federation.toml --out keys
      fedbandits live keys federation.toml --out keys --renew north
      fedbandits live keys federation.toml --host north=bandits.example.org --host north=10.1.2.3
    """  # noqa: D301
    from fedbandits.live import Federation
    from fedbandits.live.federation import keys as key_folders
    from fedbandits.live.federation.certificates import LOOPBACK
    from fedbandits.live.federation.membership import require_member

    known = Federation.read(federation, allow_modules=allow_module or [])
    for name in (renew, add):
        if name is not None:
            require_member(federation, known, name)
    hosts = {
        name: [address.rpartition(":")[0].strip("[]")] for name, address in known.addresses.items()
    }
    for given in host or []:
        name, equals, further = given.rpartition("=")
        if not equals:
            example = f"{known.members[0]}={given}"
            raise ValueError(f"--host {given}: write MEMBER=HOST, for example {example}")
        require_member(federation, known, name)
        if name != (renew or add or name):
            raise ValueError(f"--host {given}: only {renew or add} gets a certificate now")
        hosts.setdefault(name, []).append(further)
    if renew is not None:
        key_folders.renew(out, renew, hosts.get(renew, []), days)
        say(f"{out / renew / 'cert.pem'} is new; copy it to the site, which needs no restart")
    elif add is not None:
        key_folders.add_member(out, add, hosts.get(add, LOOPBACK), days)
        say(f"{out / add} is new; copy it to the site")
    else:
        key_folders.write_keys(known, out, hosts, days)
        say(f"keys of {len(known.members)} members are in {out}; keep {out / 'ca.key'} secret")


@live_app.command()
def join(
    federation: FederationFile,
    name: Annotated[str, typer.Argument(help="Name of the new member.")],
    link: Annotated[list[str], typer.Option(metavar="MEMBER", help="A neighbour; repeatable.")],
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where its neighbours reach it, if they can."),
    ] = None,
    allow_module: AllowModule = None,
) -> None:
    """Add a member to a federation's file and print the next steps.

    The file keeps its comments and layout, and its version increases by one.

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
    federation: FederationFile,
    name: Annotated[str, typer.Argument(help="Name of the member.")],
    allow_module: AllowModule = None,
) -> None:
    """Remove a member from a federation's file and print the next steps.

    Fails if the member is the only path between others. The file keeps its comments and layout, and
    its version increases by one.

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
    file: Annotated[Path, typer.Argument(metavar="AGENT.toml", help="The member's file.")],
) -> None:
    """Run one member of a federation, and log JSON lines.

    SIGTERM or Ctrl-C stops the agent gracefully.

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
    url: Annotated[str, typer.Argument(help="Address of the service, such as https://site3:8443.")],
    token: Annotated[Path, typer.Option(help="File with its token.")],
    authority: Annotated[
        Path | None, typer.Option("--ca", help="ca.pem of the federation, for https.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
