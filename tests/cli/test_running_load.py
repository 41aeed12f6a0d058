"""`strandline load start`, `stop` and `report`: what they make, what they print, wrong words."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from strandline.errors import ConfigError
from strandline_cli import load_follow
from strandline_cli.__main__ import main
from strandline_cli.commands import CommandFailed
from strandline_cli.end_asked import EndAsked
from strandline_cli.load_figures import Figures
from strandline_cli.load_generator import COMPARED
from strandline_cli.load_page import drawing, is_well, plot, show_load
from strandline_cli.running_load import (
    LOAD_LABEL,
    LoadSeen,
    LoadWishes,
    client_image,
    job_of,
    scan_command,
    topic_of,
)

WISHES = LoadWishes(
    name="mine", cluster="", topic="", partitions=4, rate=20, image="", wait_seconds=1
)
WALL_MS = 1_800_000_000_000
NOW = datetime.fromtimestamp(WALL_MS / 1000 + 60, tz=UTC)


def stateful_set(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


def summary(**changes: Any) -> dict[str, Any]:
    """Return what a load of a minute writes, with a gap of four seconds."""
    figures = Figures(started_ms=0, started_wall_ms=WALL_MS)
    for second in range(60):
        figures.on_sent(0, second * 1000)
        if not 20 <= second < 24:
            figures.on_acked(0, second * 1000, second * 1000 + 4)
    return {
        "name": "load1",
        "topic": "orders",
        "partitions": 1,
        "rate": 1.0,
        "wall_ms": WALL_MS + 60_000,
        "ended": False,
        **figures.summary(60_000),
        "acked": 56,
        "failed": 0,
        "unknown": 4,
        "read": 56,
        "pods": 1,
        "unread": {},
        "read_errors": {},
        **dict.fromkeys(COMPARED, 0),
        "checked": 56,
        "examples": [],
        **changes,
    }


def seen(**changes: Any) -> LoadSeen:
    return LoadSeen(
        name="mine", cluster="demo", pod="mine-x", summary=summary(**changes), exit_code=None
    )


# --- what is made -------------------------------------------------------------------------


def test_the_clients_image_lies_beside_the_brokers() -> None:
    found = client_image(stateful_set("example.org:5000/team/strandline-broker:1.2"))
    assert found == "example.org:5000/team/strandline-client:1.2"


@pytest.mark.parametrize(
    "image", ["example.org/broker:1", "r/strandline-broker@sha256:12", "strandline-broker"]
)
def test_an_image_that_does_not_tell_the_clients_is_asked_for(image: str) -> None:
    with pytest.raises(ConfigError, match=f"--image must name .*{image}"):
        client_image(stateful_set(image))


def test_a_topic_of_its_own_has_a_new_name_and_cannot_fill_a_volume() -> None:
    first, second = (topic_of(WISHES, "demo", 3) for _ in range(2))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["labels"][LOAD_LABEL] == "mine"
    assert first["spec"]["clusterRef"] == "demo"
    assert first["spec"]["partitions"] == 4
    assert 0 < first["spec"]["config"]["retentionMs"] <= 3_600_000


def test_the_program_in_the_job_gets_what_was_wished_and_has_bounds() -> None:
    topic = topic_of(WISHES, "demo", 3)
    job = job_of(WISHES, "demo", topic, "client:1")
    pod = job["spec"]["template"]["spec"]
    for container in pod["containers"]:
        assert container["securityContext"]["runAsNonRoot"] is True
        assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    assert "sizeLimit" in pod["volumes"][0]["emptyDir"]
    args = pod["containers"][0]["args"]
    assert args[:2] == ["strandline", "load"]
    assert "--bootstrap=demo-bootstrap:9092" in args
    assert f"--topic={topic['metadata']['name']}" in args
    assert {"--rate=20", "--partitions=4", "--until-stopped"} <= set(args)
    # All pods of one Job have one id, and another load of this name has another one.
    assert sum(each.startswith(f"--goes-on={WISHES.name}-") for each in args) == 1
    again = job_of(WISHES, "demo", topic, "client:1")["spec"]["template"]["spec"]
    assert again["containers"][0]["args"] != args


def test_the_program_in_the_job_takes_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    monkeypatch.setattr("strandline_cli.load_generator.generate", plans.append)
    args = job_of(WISHES, "demo", topic_of(WISHES, "demo", 3), "client:1")["spec"]["template"]
    main(args["spec"]["containers"][0]["args"][1:])
    (plan,) = plans
    assert plan.seconds == float("inf")
    assert plan.consume
    assert plan.summary == Path("/history/summary.json")


def test_a_scan_reads_the_newest_lines_of_each_partition() -> None:
    *_, script, topic = scan_command(2, "orders", [0, 1, 5])
    assert "for p in 0 1 5;" in script
    assert "--broker=2" in script
    assert "tail -n 100000" in script
    assert topic == "orders"


# --- what is shown ------------------------------------------------------------------------


def test_a_page_in_a_pipe_has_the_longest_gap_and_its_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_load(seen(), NOW)
    printed = capsys.readouterr().out
    began = datetime.fromtimestamp(WALL_MS / 1000 + 19.004, tz=UTC)
    assert f"        0            5000  {began:%Y-%m-%d %H:%M:%S}.004\n" in printed
    assert "\x1b" not in printed
    assert "60 s: runs\n" in printed
    assert "\nREAD BACK  AT THEIR OFFSETS  NOT THERE" in printed
    assert "\n       56                56          0" in printed


def test_a_page_tells_that_the_pod_was_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    show_load(seen(pods=1), NOW)
    assert "time between pods" not in capsys.readouterr().out
    show_load(seen(pods=3), NOW)
    assert "pod 3 of this load; the time between pods is in no gap" in capsys.readouterr().out


def test_a_page_on_a_terminal_is_drawn_with_all_tables_and_what_is_amiss_on_top() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    console.print(drawing(seen(errors={"_TRANSPORT": 2}), NOW))
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    heads = (
        "not acknowledged: _TRANSPORT",
        "a column is 1 s",
        "LONGEST GAP",
        "SENT AGAIN",
        "99.9 %",
    )
    places = [drawn.index(head) for head in heads]
    assert places == sorted(places)


def test_a_page_tells_a_load_that_hangs_and_a_record_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = "partition 0, offset 3: nothing of ours, not load1-0-3"
    found = seen(wall_ms=WALL_MS, not_there=1, examples=[example], errors={"_TRANSPORT": 2})
    show_load(found, NOW)
    printed = capsys.readouterr().out
    assert ": wrote its last figures 60 s ago\n" in printed
    assert f"not there: {example}\n" in printed
    assert "not acknowledged: _TRANSPORT: 2\n" in printed
    assert not is_well(found.summary)
    assert is_well(summary())


def test_a_load_is_followed_while_it_cannot_be_read_for_a_moment_and_until_it_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_follow, "LOOK_SECONDS", 0)
    looks = iter((CommandFailed("no pod"), seen(), CommandFailed("no pod"), seen(acked=57)))

    def look() -> LoadSeen:
        found = next(looks, None)
        if isinstance(found, CommandFailed):
            raise found
        return found or replace(seen(acked=58), exit_code=0)

    last = load_follow.follow(look, EndAsked())
    assert last is not None
    assert last.exit_code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", outst")[0] for line in lines] == [
        "not to be had now: no pod",
        "    60.0s  acked 56",
        "not to be had now: no pod",
        "    60.0s  acked 57",
        "    60.0s  acked 58",
    ]
    assert "longest gap 5000 ms from 2027-01-15 " in lines[1]


def test_following_ends_when_somebody_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    end = EndAsked()

    def look() -> LoadSeen:
        end.ask()
        return seen()

    assert load_follow.follow(look, end) is not None
    assert capsys.readouterr().out.count("\n") == 1


def test_a_plot_has_a_column_for_each_part_of_the_time_and_marks_silence() -> None:
    drawn = plot(summary())
    lines = drawn.plain.splitlines()
    assert lines[0] == "acknowledged a second, at most 1"
    bottom = lines[-2]
    assert len(bottom) == 60
    assert [column for column, block in enumerate(bottom) if block != "█"] == [20, 21, 22, 23]


# --- wrong words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("start --rate 0", "--rate: must be a number from 1 to 1000, not '0'"),
        ("start --rate nan", "--rate: must be a number from 1 to 1000, not 'nan'"),
        ("start --rate 1001", "--rate: must be a number from 1 to 1000, not '1001'"),
        ("start --partitions 0", "--partitions: must be a whole number from 1 to 1000, not '0'"),
        ("start --partitions 9.5", "must be a whole number from 1 to 1000, not '9.5'"),
        (
            "start --rate 1000 --partitions 6",
            "--rate times --partitions must be at most 5000, not 6000",
        ),
        ("start --topic t --partitions 6", "--partitions is for a topic of its own"),
        ("start --name Load", "--name: must be at most 40 of a-z, 0-9 and -"),
        ("start --wait-seconds 0", "--wait-seconds: must be a whole number of at least 1"),
        ("stop --name a,b", "--name: must be at most 40 of a-z, 0-9 and -"),
        ("stop --rate 5", "unrecognized arguments: --rate 5"),
        ("report --follow --replicas", "not allowed with argument --follow"),
        ("begin", "invalid choice: 'begin'"),
        ("--seconds 5 --until-stopped", "not allowed with argument --seconds"),
        ("", "required: --bootstrap, --topic, --partitions, --history"),
    ],
)
def test_wrong_words_name_the_option_and_what_it_takes(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["load", *words.split()])
    except SystemExit as ended:
        status = int(str(ended.code))
    printed = capsys.readouterr()
    assert status == 2
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
