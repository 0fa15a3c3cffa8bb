"""CPU time and rest of tenants."""

from __future__ import annotations

from collector.sources.tenants.desk import Who
from collector.sources.tenants.fairness import MAX_REMEMBERED, MAX_REST_S, Accounts, Strikes

WHO = Who("71", "user7")


def test_an_account_fills_with_time_up_to_its_size() -> None:
    """An overdraft has to be gained back."""
    accounts = Accounts(60.0, 0.2)
    assert accounts.left_s("a", 0.0) == 60
    accounts.charge("a", 70.0, 0.0)
    assert accounts.left_s("a", 0.0) == -10
    assert accounts.left_s("a", 100.0) == 10
    assert accounts.left_s("a", 1e6) == 60
    assert accounts.left_s("b", 0.0) == 60


def test_more_accounts_than_are_remembered_forget_the_full_ones() -> None:
    """A user who starts jobs without end takes no memory, and no other job's account."""
    accounts = Accounts(60.0, 0.2)
    accounts.charge("debtor", 60.0, 0.5)
    for number in range(MAX_REMEMBERED + 10):
        accounts.charge(number, 0.001, 0.5)
    assert accounts.left_s("debtor", 0.5) == 0
    accounts.charge("new", 30.0, 2.0)
    assert accounts.left_s("new", 2.0) == 30


def test_rest_is_doubled_up_to_an_hour() -> None:
    """And shown while it lasts."""
    strikes = Strikes()
    assert [strikes.add("look", WHO, 0.0) for _ in range(8)][-2:] == [MAX_REST_S, MAX_REST_S]
    assert strikes.resting("look", MAX_REST_S - 1)
    assert not strikes.resting("look", MAX_REST_S)
    assert not strikes.resting("other", 0.0)
    assert strikes.shown(MAX_REST_S - 1) == {WHO: 8}
    assert strikes.shown(MAX_REST_S + 900) == {}
