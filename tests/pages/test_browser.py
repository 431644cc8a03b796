"""Reports in a browser: everything is drawn, switches and slider work, and nothing is in error."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.browser import chromium, probe
from npga import functions as fn
from npga.pages import curve_section, fact_section, table_section, text_section, timeline_section, write_page


@pytest.fixture(scope="module", autouse=True)
def browser():
    return chromium()


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    rng = np.random.default_rng(0)
    agents = [npga.Agent(A=rng.standard_normal((4, 2)), f=fn.SquaredNorm(0.1)) for _ in range(6)]
    problem = npga.Problem(agents, h=fn.SquaredLoss(target=rng.standard_normal(4), weight=0.25))
    steps = npga.Steps(alpha=2.0, beta=0.03, gamma=1.0)
    network = npga.Network.ring(6)
    result = npga.solve(problem, network, "nids", steps, trace="agents", reference=npga.reference(problem).x)
    return result.report(tmp_path_factory.mktemp("run") / "run.html")


def test_a_run_is_drawn_and_its_switches_work(run_page):
    told = probe(run_page, """
        const paths = () => $$("section[data-kind=curves] path.curve").map((path) => path.getAttribute("d"));
        const fills = () => $$("circle.agent").map((node) => node.getAttribute("fill")).join();
        const told = { titles: $$("h2").map((node) => node.textContent), curves: paths().length };
        told.links = $$("nav a").length;
        const first = paths();
        press($("button[data-key=floats_sent]"));
        told.label = $$("section[data-kind=curves] text").some((node) => node.textContent === "numbers sent");
        press($("button[data-key=log]"));
        told.moved = paths()[0] !== first[0];
        press($("button[data-key=objective]"));
        told.objective = paths().length;
        press($("button[data-key=residuals]"));
        press($(".legend button"));
        told.hidden = paths().length;
        const chart = $("section[data-kind=curves] svg[role=img]"), frame = chart.getBoundingClientRect();
        chart.dispatchEvent(new PointerEvent("pointermove", { clientX: frame.left + 200, clientY: frame.top + 50 }));
        told.tip = $("section[data-kind=curves] .tip").textContent;
        told.agents = $$("circle.agent").length;
        told.edges = $$("line.edge").length;
        const slider = $("input[type=range]"), last = fills();
        told.when = $(".when").textContent;
        slider.value = 3;
        slider.dispatchEvent(new Event("input"));
        told.slid = fills() !== last;
        told.then = $(".when").textContent;
        press($("button[data-key=consensus]"));
        press($(".play"));
        await rest(1000);
        told.played = $(".when").textContent !== told.then;
        const head = $$("section[data-kind=table] th")[3];
        press(head);
        told.sorted = head.getAttribute("aria-sort");
        return told;
    """)  # fmt: skip
    assert told["titles"][:3] == ["Convergence", "Network", "Agents"]
    assert told["links"] == len(told["titles"])
    assert (told["curves"], told["objective"], told["hidden"]) == (3, 1, 2)
    assert told["label"]
    assert told["moved"]
    assert told["tip"].startswith("numbers sent")
    assert (told["agents"], told["edges"]) == (6, 6)
    assert told["slid"]
    assert told["when"] != told["then"]
    assert told["played"]
    assert told["sorted"] == "ascending"


def test_nothing_is_wider_than_a_phone(run_page):
    told = probe(run_page, """
        const facts = $("table.facts").getBoundingClientRect();
        return [document.documentElement.scrollWidth, window.innerWidth, facts.right,
          $$("section[data-kind=table] table").map((sheet) => [sheet.scrollWidth, sheet.parentElement.clientWidth])];
    """, width=500)  # fmt: skip
    assert told[0] <= told[1]
    assert told[2] <= told[1]
    assert len(told[3]) == 3  # agents, theorems, assumptions
    for wide, place in told[3]:
        assert wide <= place  # reasons are read, not scrolled to


def test_timelines_profiles_and_tables(tmp_path):
    spans = np.array([[0.0, 1.0, 0.4], [1.0, 2.5, 0.1]])
    rows = [{"name": "party 0", "spans": spans, "marks": [(2.5, "lost party 1")]}]
    lines = [{"name": name, "x": {"f": [1.0, 2.0, 3.0]}, "y": {"s": [0.0, 0.5, 1.0]}} for name in "ab"]
    sections = [
        timeline_section("Timeline", rows),
        curve_section("Profile", [("f", "factor")], [("s", "share")], lines, linear=["s"], steps=True, logx=True),
        table_section("Table", ["name", "number"], [["b", 10.0], ["a", 9.0]]),
        curve_section("Empty", [("f", "factor")], [("s", "share")], []),
        curve_section(
            "Lone", [("f", "factor")], [("s", "share")], [{"name": "c", "x": {"f": [2.0]}, "y": {"s": [0.5]}}]
        ),
        table_section("Words", ["key", "number", "why"], [["1", 2.0, "because " * 10], ["1+", 3.0, ""]]),
        text_section("Text", "a few words", "step 0.123, " * 100, ("alpha", "0.1, 0.2")),
        fact_section("Facts", [("iterations", 12), ("name", "nids")]),
    ]
    told = probe(write_page(tmp_path / "p.html", "title", "summary", sections), """
        $("rect.computing").dispatchEvent(new PointerEvent("pointerenter"));
        const sheet = $("section[data-kind=table] table");
        const cells = () => [...sheet.querySelectorAll("td:first-child")].map((node) => node.textContent).join("");
        const before = cells();
        press($$("th")[1]);
        return { bars: $$("rect.computing").length, marks: $$("path.mark").length, tip: $(".tip").textContent,
          curves: $$("path.curve").length, step: $("path.curve").getAttribute("d").includes("H"),
          before, after: cells(), empty: $$("text").some((node) => node.textContent.startsWith("Nothing")),
          lone: $$("circle.lone").length, right: $$("table.stacked tr:first-child td").map((node) => node.className),
          folded: $$("summary").map((node) => node.textContent.slice(0, 10)),
          open: $$("section[data-kind=prose] > p").length, facts: $$("table.facts td.number").length };
    """)  # fmt: skip
    assert told == {
        "bars": 2, "marks": 1, "tip": "party 00 s to 1 scomputing 40 %, waiting 60 %", "curves": 3, "step": True,
        "before": "ba", "after": "ab", "empty": True, "lone": 1, "right": ["short", "number", "long"],
        "folded": ["step 0.123", "alpha"], "open": 1, "facts": 0,
    }  # fmt: skip
