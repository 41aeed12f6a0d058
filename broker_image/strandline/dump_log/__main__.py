"""Print every record of the logs in a data directory: `python -m strandline.dump_log`.

By default it prints one line for each batch and below it its records, for people. With --lines it
prints one line of JSON for each record, as `scanned` says. It writes and locks
nothing: a batch that a running broker is just writing is left out. A damaged log ends with exit
code 1, after the batches before the damage.

Use this in the broker's image, and `strandline dump-log` elsewhere.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from strandline.config.storage import StorageConfig
from strandline.errors import CorruptBatch, StorageError
from strandline.model import BrokerId, LeaderEpoch

from .log_reader import DumpedBatch, end_offset, first_offset, log_starts, read_log, replicas
from .record_reader import Unreadable, codec_name
from .scanned import Scanned, scanned_line, start_line

SHOWN_BYTES_MAX = 200
"""Bytes shown of a key or value, for people; --lines prints values whole."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the logs that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m strandline.dump_log", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_options(parser)
    try:
        return run(parser.parse_args(arguments))
    except argparse.ArgumentError as error:
        parser.error(str(error))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    default = os.environ.get("DATA_DIR") or StorageConfig().data_dir
    parser.add_argument("--dir", default=default, help=f"data directory ({default})")
    parser.add_argument("--topic", help="only this topic; --lines needs it")
    parser.add_argument("--partition", type=int, help="only this partition")
    parser.add_argument("--newest", type=int, metavar="N", help="batches of the newest N records")
    parser.add_argument("--lines", action="store_true", help="lines for the checker")
    parser.add_argument("--broker", type=int, help="id of the broker, for --lines")


def run(options: argparse.Namespace) -> int:
    """Print the logs; 0 if all of them were read to their ends.

    Raises:  argparse.ArgumentError for options that do not go together
    """
    if options.lines and (options.broker is None or options.topic is None):
        message = "--lines needs --broker and --topic: a line names one broker, no topic"
        raise argparse.ArgumentError(None, message)
    if options.newest is not None and options.newest < 1:
        raise argparse.ArgumentError(None, f"--newest: {options.newest}: a number from 1")
    damaged = False
    try:
        found = list(replicas(Path(options.dir)))
        starts = log_starts(Path(options.dir))
    except (OSError, StorageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for metadata, folder in found:
        partition = metadata.tp.partition
        if options.topic not in (None, metadata.topic_name):
            continue
        if options.partition not in (None, partition):
            continue
        start = max(starts.get(metadata.tp, 0), first_offset(folder))
        if options.lines:
            print(start_line(BrokerId(options.broker), partition, start))
        else:
            print(f"{metadata.topic_name}-{partition} {folder} log start {start}")
        try:
            from_offset = end_offset(folder) - options.newest if options.newest else 0
            for batch in read_log(folder, from_offset=from_offset):
                lines = (
                    checker_lines(BrokerId(options.broker), partition, batch)
                    if options.lines
                    else human_lines(batch)
                )
                sys.stdout.writelines(f"{line}\n" for line in lines)
        except (OSError, CorruptBatch) as error:
            sys.stdout.flush()
            print(f"error: {folder}: {error}", file=sys.stderr)
            damaged = True
    return 1 if damaged else 0


def checker_lines(broker: BrokerId, partition: int, batch: DumpedBatch) -> Iterator[str]:
    """Yield a line for each record; bytes that are no text are spelled with backslashes.

    Raises:  Unreadable if the records are compressed
    """
    if batch.records is None:
        raise Unreadable(problem="records are compressed", codec=codec_name(batch.header))
    for record in batch.records:
        yield scanned_line(
            Scanned(
                broker=broker,
                partition=partition,
                offset=record.offset,
                leader_epoch=LeaderEpoch(batch.header.leader_epoch),
                value=(record.value or b"").decode(errors="backslashreplace"),
                checksum=batch.header.crc,
            )
        )


def human_lines(batch: DumpedBatch) -> Iterator[str]:
    """Yield a line for the batch and an indented one for each of its records."""
    header = batch.header
    yield (
        f"offsets {header.base_offset}..{header.next_offset - 1} epoch {header.leader_epoch} "
        f"crc {header.crc:08x} bytes {header.size_bytes} codec {codec_name(header)} "
        f"producer {header.producer_id}/{header.producer_epoch} sequence {header.base_sequence} "
        f"at {batch.segment}:{batch.position}"
    )
    for record in batch.records or ():
        yield (
            f"  {record.offset} at {record.timestamp_ms} ms "
            f"key {_shown(record.key)} value {_shown(record.value)}"
        )


def _shown(content: bytes | None) -> str:
    if content is None:
        return "none"
    rest = len(content) - SHOWN_BYTES_MAX
    shown = repr(content[:SHOWN_BYTES_MAX].decode(errors="backslashreplace"))
    return f"{shown} and {rest} bytes" if rest > 0 else shown


if __name__ == "__main__":
    sys.exit(main())
