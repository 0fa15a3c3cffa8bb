"""What each service documents of the JSON that it takes, as JSON schemas: no field beyond them."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
LINK = {"type": "string", "pattern": "^https?://"}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


# developer.pagerduty.com, "Send an alert event": Events API v2.
PAGERDUTY = _object(
    ["routing_key", "event_action", "dedup_key", "payload"],
    routing_key={"type": "string", "minLength": 32, "maxLength": 32},
    event_action={"enum": ["trigger", "acknowledge", "resolve"]},
    dedup_key={"type": "string", "minLength": 1, "maxLength": 255},
    payload=_object(
        ["summary", "source", "severity"],
        summary={"type": "string", "minLength": 1, "maxLength": 1024},
        source={"type": "string", "minLength": 1},
        severity={"enum": ["critical", "warning", "error", "info"]},
        timestamp=TEXT,
        component=TEXT,
        group=TEXT,
        **{"class": TEXT},
        custom_details={"type": "object"},
    ),
    client=TEXT,
    client_url=LINK,
    links={"type": "array", "items": _object(["href"], href=LINK, text=TEXT)},
    images={"type": "array", "items": _object(["src"], src=LINK, href=LINK, alt=TEXT)},
)

# docs.slack.dev, "Legacy: secondary message attachments", and incoming webhooks.
SLACK = _object(
    ["attachments"],
    channel=TEXT,
    username=TEXT,
    icon_emoji=TEXT,
    icon_url=TEXT,
    text=TEXT,
    link_names={"type": "boolean"},
    attachments={
        "type": "array",
        "minItems": 1,
        "items": _object(
            ["fallback", "title", "text"],
            fallback={"type": "string", "minLength": 1},
            color={"enum": ["good", "warning", "danger"]},
            title={"type": "string", "minLength": 1},
            title_link=LINK,
            text={"type": "string", "minLength": 1},
            pretext=TEXT,
            footer={"type": "string", "maxLength": 300},
            callback_id=TEXT,
            mrkdwn_in={"type": "array", "items": {"enum": ["text", "pretext", "fields"]}},
        ),
    },
)

# learn.microsoft.com, "Create and send messages" with incoming webhooks, and the Adaptive Cards
# schema 1.x: a TextBlock has these properties.
TEAMS = _object(
    ["type", "attachments"],
    type={"const": "message"},
    attachments={
        "type": "array",
        "minItems": 1,
        "items": _object(
            ["contentType", "content"],
            contentType={"const": "application/vnd.microsoft.card.adaptive"},
            contentUrl={"type": ["string", "null"]},
            content=_object(
                ["type", "version", "body"],
                type={"const": "AdaptiveCard"},
                version={"enum": ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]},
                body={
                    "type": "array",
                    "items": _object(
                        ["type", "text"],
                        type={"const": "TextBlock"},
                        text={"type": "string", "minLength": 1},
                        color={"enum": ["Default", "Good", "Warning", "Attention", "Accent"]},
                        weight={"enum": ["Lighter", "Default", "Bolder"]},
                        size={"enum": ["Small", "Default", "Medium", "Large", "ExtraLarge"]},
                        style={"enum": ["default", "heading"]},
                        wrap={"type": "boolean"},
                    ),
                },
                msteams={"type": "object"},
                **{"$schema": LINK},
            ),
        ),
    },
)
