"""The style of a job's page, and the policy under which a browser takes it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

# Okabe and Ito's palette, as in all plots here; the words are in the table below.
COLOURS: dict[str, str] = {
    "load": "#56b4e9",
    "steps": "#009e73",
    "pause": "#e69f00",
    "stall": "#d55e00",
    "unobserved": "#999999",
}
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.end{border-left:.4rem solid #b3261e;background:#fbeceb;padding:.6rem 1rem}
.end.good{border-color:#2e7d32;background:#eef6ee}
dl{display:grid;grid-template-columns:7rem 1fr;gap:.2rem 1rem}dt{color:#555}dd{margin:0}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem .25rem 0;
border-bottom:1px solid #ddd;vertical-align:top}td{overflow-wrap:anywhere}
svg{width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}dt{color:#aaa}
.end{background:#3a1f1d}.end.good{background:#1d301e}th,td{border-color:#444}}
""" + "".join(f".{kind}{{color:{colour}}}" for kind, colour in COLOURS.items())
# For who serves it: its own style and nothing else (Content Security Policy 3, "hash-source").
POLICY = (
    "default-src 'none'; style-src 'sha256-"
    + b64encode(sha256(STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
