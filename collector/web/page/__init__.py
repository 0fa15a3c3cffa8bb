"""The status page at `/`: rendered here whole, with or without JavaScript; the script of the page
asks for it again and takes over what differs.
"""

from __future__ import annotations

from collector.web.page.assets import ASSETS, Asset
from collector.web.page.document import page
from collector.web.page.incident_page import incident_page, missing_page

__all__ = ["ASSETS", "Asset", "incident_page", "missing_page", "page"]
