"""The status page of a real agent in a real browser, from all well to a lost GPU to
an agent that was killed.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from simulator.simulate import inject
from tests.agents import AgentProcess
from tests.browser import Browser
from tests.collector.web.served import loaded

pytestmark = pytest.mark.integration


def test_the_page_tells_what_happens_while_it_is_looked_at(tmp_path: Path) -> None:
    """Eight GPUs that are well, then the one that left, then that nobody answers any more; and
    never a word in the console.
    """
    with (
        AgentProcess(tmp_path / "s", "--simulate", "hgx-h100").ready() as agent,
        Browser(tmp_path) as browser,
    ):
        page = loaded(browser.open(f"http://{agent.address}/"))
        page.until(
            "document.querySelector('.verdict').textContent.includes('8 GPUs and 8 ports')",
            "all to be well",
        )
        assert page.evaluate(
            "[...document.querySelectorAll('#gpus .line')].every((one) => "
            "one.getAttribute('d') !== '')"
        )
        inject(agent.storage / "simulated", "gpu_lost@gpu3")
        page.until(
            "document.querySelector('.verdict').textContent.includes('GPU 3 on ')",
            "the verdict",
        )
        # The kernel's XID may be there before the state is read.
        page.until(
            "document.querySelector('#gpus [data-level=bad]').textContent.includes('lost')",
            "its state",
        )
        assert page.complaints == []
        agent.stop(signal.SIGKILL)
        page.until(
            (
                "document.querySelector('#silence').textContent.startsWith('The "
                "agent does not answer.')"
            ),
            "it to be missed",
        )
