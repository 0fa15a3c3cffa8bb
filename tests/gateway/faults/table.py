"""Each fault of the bus or of a gateway: the test that causes it, what that may lose, and for how
long no gateway may report. `make docs` writes the table of docs/fleet.md from it, and the fixture
`measured` holds each test to its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# By design 5.05 s: an entry of the lease lives 3 s, its server looks once a second, the one that
# waits asks every 0.25 s and may wait 0.8 s for the answer. Thrice that on a machine that is busy.
TAKE_OVER_S = 15.0
# By design 12 s: up to 4 s between two attempts to connect and 2 s for one, 1 s until the stream is
# looked at again, and a take-over. Agents, whose messages close the seconds, connect meanwhile.
BACK_S = 25.0
# By design 23 s: a vote of NATS takes 4 to 9 s, twice where nobody wins the first, and a take-over.
ELECTED_S = 30.0
# A gateway that answers late is no silence; a take-over takes 2 s at least.
NEVER_S = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A fault. ``most``: readings, messages or incidents lost, or exactly so many; ``lost`` says
    which. ``silent_s``: for so long no gateway reports, or after ``until``.
    """

    fault: str
    test: str
    silent_s: float = NEVER_S
    until: str = ""
    lost: str = "nothing"
    most: int = 0
    exactly: bool = False

    @property
    def silence(self) -> str:
        """In words."""
        if self.silent_s == NEVER_S:
            return "never"
        after = f"{self.until}, and after that " if self.until else ""
        return f"{after}at most {self.silent_s:.0f} s"


TABLE = (
    Row(
        "NATS is gone for ten minutes",
        "test_a_broker_that_is_gone_for_ten_minutes_costs_all_but_the_last_one",
        BACK_S,
        "while it is gone",
        "what is older than a minute, counted: of 601 readings, one a second, at most {most}",
        546,
    ),
    Row("NATS is slow: half a second for each answer", "test_a_slow_broker_costs_nothing"),
    Row(
        "NATS is back without its data",
        "test_a_broker_that_begins_empty_costs_what_it_had_stored",
        BACK_S,
        "until the stream is made again",
        "what it had stored; of what agents had not sent nothing",
    ),
    Row(
        "its disk is full",
        "test_a_broker_whose_disk_is_full_says_so_and_takes_up_again",
        BACK_S,
        "while it is full",
        "nothing that is younger than a minute",
    ),
    Row(
        "one NATS server of three dies, the one that leads the lease",
        "test_one_broker_of_three_costs_nothing",
        ELECTED_S,
    ),
    Row(
        "the gateway that reports dies together with it",
        "test_a_gateway_that_dies_with_the_server_of_its_lease_is_followed",
        ELECTED_S,
    ),
    Row(
        "the gateway that reports dies",
        "test_of_two_gateways_one_leads_and_the_other_takes_over",
        TAKE_OVER_S,
    ),
    Row(
        "it hangs, and goes on later",
        "test_a_frozen_gateway_is_followed_and_does_not_report_when_it_wakes",
        TAKE_OVER_S,
    ),
    Row(
        "both gateways die",
        "test_gateways_that_are_started_again_go_on_from_their_snapshots",
        BACK_S,
        "until one is back",
    ),
    Row(
        "a line between agents and NATS is cut",
        "test_agents_behind_a_cut_line_are_not_waited_for_and_lose_nothing",
        lost="nothing within a minute",
    ),
    Row(
        "half of the agents are behind a partition (network namespaces)",
        "test_half_of_the_agents_behind_a_partition",
        lost="nothing within a minute",
    ),
    Row(
        "messages that are torn, huge, hostile, of another version, of another host",
        "test_batches_that_no_agent_sends_are_refused_and_named",
        lost="these {most} messages, counted",
        most=5,
        exactly=True,
    ),
    Row(
        "a node's clock is wrong, by 2 s or a day",
        "test_an_agent_with_a_wrong_clock_is_judged_with_the_others",
    ),
    Row("two agents use one name", "test_two_agents_of_one_name_are_shown"),
    Row(
        "a host's credentials are stolen",
        "test_a_host_publishes_for_itself_only",
        lost="what is sent with them in another host's name",
        most=1,
        exactly=True,
    ),
)
ROWS = {row.test: row for row in TABLE}


def lines() -> Iterator[str]:
    """The table as the page has it."""
    yield "| Fault | Lost | No gateway reports | Test |"
    yield "|---|---|---|---|"
    for row in TABLE:
        lost = row.lost.format(most=row.most)
        yield f"| {row.fault} | {lost} | {row.silence} | `{row.test}` |"
