"""The status page at `/`: rendered here whole, with or without JavaScript; the script of the page
asks for it again and takes over what differs.
"""

from __future__ import annotations

from collector.web.page.assets import ASSETS, Asset
from collector.web.page.document import page

__all__ = ["ASSETS", "Asset", "page"]
