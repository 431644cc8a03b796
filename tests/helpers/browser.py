"""A page in headless Chromium: opened from its file, acted upon by a script, and what came of it.

No driver is needed: the page gets a script before its own ones, which keeps every error, and one after them, whose
answer is read out of the DOM that Chromium prints.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
_BEFORE = """<script>
window.faults = [];
window.addEventListener("error", (event) => window.faults.push(event.message));
window.addEventListener("unhandledrejection", (event) => window.faults.push(String(event.reason)));
console.error = (...words) => window.faults.push(words.join(" "));
</script>"""
_AFTER = """<script>
(async () => {
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));
  const $ = (name) => document.querySelector(name), $$ = (name) => [...document.querySelectorAll(name)];
  const press = (node) => node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  let answer;
  await rest(100);
  try { answer = await (async () => { %s })(); } catch (error) { window.faults.push(String(error)); }
  const home = document.createElement("pre");
  home.id = "probe";
  home.textContent = JSON.stringify({ answer, faults: window.faults });
  document.body.append(home);
})();
</script></body>"""


def chromium() -> str:
    """The browser's program; the test is skipped where there is none."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )
    if not found:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    return found


def probe(page: Path, script: str, width: int = 1200) -> Any:
    """What a script returns that runs in the page after it was drawn; any error on the page fails the test.

    The script is the body of an async function; $, $$, press and rest are there for it.
    """
    program = chromium()
    text = page.read_text(encoding="utf-8").replace("<head>", "<head>" + _BEFORE, 1)
    copy = page.with_name("probe-" + page.name)
    copy.write_text(text.replace("</body>", _AFTER.replace("%s", script)), encoding="utf-8")
    said = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900",
         "--virtual-time-budget=20000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    found = re.search(r'<pre id="probe">(.*?)</pre>', said.stdout, re.DOTALL)
    assert found, f"the page gave no answer; Chromium said {said.stderr[-2000:]}"
    told = json.loads(html.unescape(found.group(1)))
    assert told["faults"] == []
    return told["answer"]
