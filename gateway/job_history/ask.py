"""What the gateway and its reading child say to each other, as JSON: the question on the command
line, the answer on standard output.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from pipeline.store.remote.upload_plan import Target

Form = Literal["json", "html", "text"]
FORMS: tuple[Form, ...] = ("json", "html", "text")
MEDIA = {"json": "application/json", "html": "text/html", "text": "text/plain"}
GONE = 3  # exit code: the store does not have the run any more


@dataclass(frozen=True, slots=True)
class Ask:
    """``target`` is where the store is. Without a ``job`` the runs of the last ``days`` are asked
    for, else the page of the run that began at ``begin_ns``, as its ``owner`` may read it, or
    everybody ("").
    """

    target: Target
    days: int = 0
    job: str = ""
    begin_ns: int = 0
    end_ns: int = 0
    owner: str = ""
    form: Form = "json"

    def to_json(self) -> str:
        """As the child's argument. It holds paths of credentials, never credentials."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Ask:
        """From the child's argument."""
        given = json.loads(text)
        return cls(Target(**given.pop("target")), **given)
