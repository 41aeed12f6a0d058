"""The table of all words of the language.

The last chapter of `docs/scenarios.md` is this table as text: a test compares them, and
`--update-scenarios` rewrites the chapter.
"""

from __future__ import annotations

import dataclasses

from strandline.core.settings import CoreSettings

from . import (
    cluster_commands,
    controller_commands,
    inspection,
    replication_commands,
    script_controller,
)
from .controller_commands import MESSAGES
from .language import Command, ScenarioError

_SETTINGS = {each.name: "a setting of the core" for each in dataclasses.fields(CoreSettings)}

HEADING = "## Words"

GROUPS: dict[str, tuple[Command, ...]] = {
    "Processes, disks and time": (
        Command(cluster_commands.cluster, "cluster brokers=3 min_isr=2", _SETTINGS),
        Command(cluster_commands.configure, "configure segment_bytes=4096"),
        Command(cluster_commands.flush, "flush broker=0"),
        Command(cluster_commands.advance, "advance ms=500"),
        Command(cluster_commands.kill, "kill broker=0"),
        Command(cluster_commands.start, "start broker=0 log=0"),
        Command(cluster_commands.hold_persist, "hold_persist broker=0"),
        Command(cluster_commands.persist, "persist broker=0"),
        Command(replication_commands.retention, "retention broker=0 offset=2"),
        Command(cluster_commands.lose_disk, "lose_disk broker=0"),
    ),
    "Brokers among themselves": (
        Command(replication_commands.fetch, "fetch broker=1"),
        Command(
            replication_commands.refetch,
            "refetch broker=1 fetch_offset=0 leader_epoch=1 last_fetched_epoch=-1",
        ),
        Command(replication_commands.reply, "reply broker=1 batches=1"),
        Command(replication_commands.sync, "sync brokers=1,2"),
        Command(replication_commands.lose_fetch, "lose_fetch broker=1"),
    ),
    "Clients": (
        Command(replication_commands.produce, "produce broker=0 records=a,b acks=1"),
        Command(replication_commands.delete_records, "delete_records broker=0 offset=2"),
        Command(replication_commands.wait, "wait broker=0 seen=1"),
        Command(replication_commands.hang_up, "hang_up broker=0 request=105"),
        Command(inspection.consume, "consume broker=0 offset=3"),
        Command(inspection.offset, "offset broker=0 of=latest"),
        Command(inspection.epoch_end, "epoch_end broker=0 leader_epoch=1"),
    ),
    "Looking": (
        Command(inspection.state, "state"),
        Command(inspection.logs, "logs"),
        Command(inspection.disk, "disk broker=0"),
        Command(inspection.stored, "stored"),
        Command(inspection.controllers, "controllers"),
        Command(inspection.told, "told"),
    ),
    "The script as controller": (
        Command(script_controller.live, "live brokers=0,2 to=0"),
        Command(script_controller.elect, "elect leader=0 isr=0,1 new=yes"),
        Command(script_controller.commit, "commit isr=0 to=0"),
        Command(script_controller.announce, "announce to=1 state=saved"),
        Command(script_controller.save, "save"),
        Command(script_controller.delete, "delete to=0"),
        Command(script_controller.accept, "accept broker=0 response=lost"),
        Command(script_controller.refuse, "refuse broker=0"),
        Command(script_controller.late, "late broker=0"),
        Command(script_controller.respond, "respond broker=0 error=NOT_CONTROLLER stored=no"),
    ),
    "Controllers that decide": (
        Command(controller_commands.connect, "connect brokers=0,1,2 controller=0"),
        Command(controller_commands.disconnect, "disconnect broker=1 probe=no_answer"),
        Command(controller_commands.silence, "silence broker=1"),
        Command(controller_commands.resume, "resume broker=1"),
        Command(controller_commands.propose, "propose broker=0 controller=1 isr=0,1,2"),
        Command(
            controller_commands.heartbeat,
            "heartbeat broker=1 controller=0 session=2 broker_epoch=7",
        ),
        Command(controller_commands.report, "report broker=1"),
        Command(controller_commands.fill_volume, "fill_volume broker=1"),
        Command(controller_commands.grow_volume, "grow_volume broker=1"),
        Command(controller_commands.shutdown, "shutdown broker=1"),
        Command(controller_commands.stop, "stop controller=0"),
        Command(controller_commands.freeze, "freeze controller=0"),
        Command(controller_commands.thaw, "thaw controller=0"),
        Command(controller_commands.cut_watch, "cut_watch controller=0"),
        Command(controller_commands.restore_watch, "restore_watch controller=0"),
    ),
    "The store, and messages that are late or lost": (
        Command(controller_commands.hold, "hold message=WritePartitionStatus outcome=delayed"),
        Command(controller_commands.release, "release"),
        Command(controller_commands.time_out, "time_out"),
        Command(controller_commands.write, "write leader=1 isr=0,1 leader_epoch=1"),
        Command(controller_commands.delete_partition, "delete_partition partition=0"),
        Command(controller_commands.assign, "assign replicas=3,1,2"),
        Command(controller_commands.ask_preferred, "ask_preferred leader_epoch=1"),
        Command(controller_commands.make_partition, "make_partition partition=0 recover=yes"),
        Command(controller_commands.delete_topic, "delete_topic"),
        Command(controller_commands.take_lease, "take_lease broker=1"),
        Command(controller_commands.make_topic, "make_topic partitions=1"),
        Command(controller_commands.back_up, "back_up"),
        Command(controller_commands.restore, "restore"),
        Command(controller_commands.seem_deleted, "seem_deleted"),
        Command(controller_commands.holder_died, "holder_died broker=0 controller=1"),
        Command(controller_commands.delete_lease, "delete_lease"),
        Command(controller_commands.recreate_lease, "recreate_lease"),
    ),
}

SCRIPT_WORDS = {
    "quiet": ("quiet", "Print nothing of the commands that follow."),
    "loud": ("loud", "Print again, from the next command on."),
    "repeat": (
        "repeat 3 fetch broker=1 ; advance ms=100",
        "Perform the commands in turn this many times; print only effects on the ISR.",
    ),
}
"""Words about the script itself, which `script.py` executes; they do not change the world."""

COMMANDS = {each.word: each for group in GROUPS.values() for each in group}


def command(word: str) -> Command:
    """Return a command by its word."""
    found = COMMANDS.get(word)
    if found is None:
        every = ", ".join(sorted([*SCRIPT_WORDS, *COMMANDS]))
        raise ScenarioError(f"no command {word!r}; commands are: {every}")
    return found


def words() -> str:
    """Return the chapter of docs/scenarios.md that lists every word."""
    lines = [HEADING, "", "### The script", ""]
    for example, meaning in SCRIPT_WORDS.values():
        lines.append(f"- `> {example}`: {meaning}")
    for title, group in GROUPS.items():
        lines += ["", f"### {title}", ""]
        for each in group:
            lines.append(f"- `> {each.example}`: {each.meaning}{_arguments(each)}")
    return "\n".join([*lines, "", f"`hold` knows these messages: {', '.join(MESSAGES)}.", ""])


def _arguments(found: Command) -> str:
    usage = found.usage()
    further = ", and the settings in `core/settings.py`" if found.further else ""
    return f" Takes `{usage}`{further}." if usage else ""
