"""Reports as files: one HTML page without requests, small, with everything that was asked for in it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import npga
from helpers.rehearsal import make_job
from npga import functions as fn
from npga.cli import application
from npga.errors import InputError
from npga.pages import curve_section, network_section, read_sections, store_sections, text_section, write_page

STEPS = npga.Steps(alpha=2.0, beta=0.03, gamma=1.0)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    agents = [npga.Agent(A=rng.standard_normal((4, 2)), f=fn.SquaredNorm(0.1), g=fn.L1(0.05)) for _ in range(6)]
    problem = npga.Problem(agents, h=fn.SquaredLoss(target=rng.standard_normal(4), weight=0.25))
    return problem, npga.Network.ring(6)


def sections_of(page):
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data.group(1))["sections"]


def kinds(sections):
    return [section["kind"] for section in sections]


def test_agents_are_measured_at_every_record_and_the_run_stays_as_it_is(small):
    plain = npga.solve(*small, "nids", STEPS)
    seen = []
    traced = npga.solve(*small, "nids", STEPS, trace="agents", callback=lambda record, _: seen.append(record))
    np.testing.assert_array_equal(plain.x, traced.x)
    np.testing.assert_array_equal(plain.trace.kkt, traced.trace.kkt)
    agents = traced.trace.agents
    assert plain.trace.agents is None
    assert len(seen) == len(traced.trace) == len(agents.seconds)
    assert agents.iterations == traced.trace.iteration.tolist()
    # the parts add up to what the trace holds
    np.testing.assert_allclose(np.linalg.norm(agents.consensus, axis=1), traced.trace.consensus, 1e-12, 1e-15)
    x, lam = traced.x, traced.lam.mean(axis=0)
    own = npga.problem.residual(small[0], x, small[0].A.apply(x), lam).stationarity
    assert agents.stationarity[-1].max() == own > 0.0
    with pytest.raises(InputError, match="did you mean 'agents'"):
        npga.solve(*small, "nids", STEPS, trace="agent")


def test_an_automatic_run_and_other_methods_are_traced_too(small):
    for found in (npga.solve(*small, trace="agents"), npga.solve(*small, method="pga", trace="agents")):
        assert found.trace.agents.iterations == found.trace.iteration.tolist()
        assert kinds(found.sections())[:2] == ["curves", "graph"]


def test_a_report_is_one_small_file_that_asks_for_nothing(small, tmp_path):
    page = npga.solve(*small, trace="agents").report(tmp_path / "deep" / "run.html")
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 200_000
    assert not re.search(r"""(src|href)=["'](?!data:,|#)|url\(|@import|fetch\(|XMLHttpRequest""", text)
    found = {section["title"]: section for section in sections_of(page)}
    assert {"Convergence", "Network", "Certificate", "Theorems", "Assumptions", "Settings", "Provenance"} <= set(found)
    assert [key for key, _ in found["Convergence"]["axes"]] == ["iterations", "rounds", "floats_sent", "seconds"]
    assert len(found["Network"]["frames"]) > 10
    assert ["npga", npga.__version__] in found["Provenance"]["rows"]


def test_without_agents_the_end_is_drawn(small):
    network = npga.solve(*small, "nids", STEPS).sections()[1]
    assert len(network["frames"]) == 1
    assert "trace='agents'" in network["note"]


def test_many_agents_and_many_records_stay_small(tmp_path):
    n, frames = 3000, 400
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    values = {"a": rng.random((frames, n)), "b": rng.random((frames, n))}
    measures = [("a", "a"), ("b", "b")]
    drawn = network_section("n", edges, [f"agent {i}" for i in range(n)], range(frames), measures, values)
    lines = [{"name": str(k), "x": {"i": np.arange(1e5)}, "y": {"e": rng.random(100_000)}} for k in range(10)]
    curves = curve_section("c", [("i", "i")], [("e", "e")], lines)
    assert write_page(tmp_path / "p.html", "t", "s", [drawn, curves]).stat().st_size < 3_000_000
    assert drawn["frames"][0] == 0
    assert drawn["frames"][-1] == frames - 1
    with pytest.raises(InputError, match="more than 5"):
        write_page(tmp_path / "q.html", "t", "s", [text_section("x", "y" * 6_000_000)])


def test_text_cannot_leave_its_place(tmp_path):
    nasty = "</script><script>alert(1)</script>"
    page = write_page(tmp_path / "p.html", nasty, nasty, [text_section(nasty, nasty)])
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert sections_of(page)[0]["text"] == [nasty]
    title, summary, parts = read_sections(store_sections("a", "b", [text_section("c", nasty, ("d", nasty))]))
    assert (title, summary, parts[0]["text"]) == ("a", "b", [nasty, ["d", nasty]])


def test_a_comparison_reports_tables_errors_and_profiles(small, tmp_path):
    entries = [npga.tuning.Entry(name, version=npga.version(name), steps=STEPS) for name in ("nids", "extra")]
    store = tmp_path / "comparison.jsonl"
    found = npga.compare(*small, [*entries, "dual-exact"], seeds=2, store=store, budget=20_000, tol=1e-6)
    page = found.report(tmp_path / "c.html")
    assert kinds(sections_of(page)).count("curves") == 2
    again = npga.tuning.read_comparison(store)
    assert (again.labels, again.tol, again.summary()) == (found.labels, found.tol, found.summary())


def test_the_command_reports_runs_checkpoints_launches_and_refuses_the_rest(small, tmp_path):
    run = CliRunner().invoke
    app = application()
    npga.solve(*small, "nids", STEPS, checkpoint=tmp_path / "run.npz")
    assert run(app, ["report", str(tmp_path / "run.npz")]).exit_code == 0
    assert kinds(sections_of(tmp_path / "run.html")) == ["curves", "facts"]
    job, *_ = make_job(tmp_path, 3, max_iters=20, metrics_seconds=0.0)
    assert run(app, ["launch", str(job), "--out", str(tmp_path / "out")]).exit_code == 0
    assert run(app, ["report", str(tmp_path / "out"), "--html", str(tmp_path / "launch.html")]).exit_code == 0
    found = sections_of(tmp_path / "launch.html")
    assert kinds(found) == ["facts", "bars", "curves", "table", "facts"]
    assert ["iterations", 20] in found[0]["rows"]
    np.savez(tmp_path / "other.npz", a=1.0)
    for wrong, words in (("other.npz", "is no run"), ("none.npz", "does not exist"), (".", "no tables")):
        said = run(app, ["report", str(tmp_path / wrong)])
        assert said.exit_code == 2
        assert words in said.output


@pytest.mark.parametrize("inside", ["solution.npz", "agent1.npz", "party0.json", "party0.jsonl", "checkpoints/a.npz"])
def test_a_file_of_a_launch_is_answered_with_its_folder(tmp_path, inside):
    out = tmp_path / "out"
    (out / inside).parent.mkdir(parents=True)
    (out / "party0.jsonl").write_text('{"time": 2.5, "seconds": 1.0, "waiting": 0.4, "computing": 0.6}\n')
    if inside.endswith("npz"):
        np.savez(out / inside, x=np.ones(2), lam=np.ones((2, 1)))
    elif inside.endswith("json"):
        (out / inside).write_text('{"party": 0}')
    said = CliRunner().invoke(application(), ["report", str(out / inside)])
    assert said.exit_code == 2
    assert f"it belongs to the launch in {out}, of which `npga report {out}` makes a report" in said.output
    assert said.output.count("\n") == 1


def test_a_launch_that_was_killed_is_drawn(tmp_path):
    (tmp_path / "party0.jsonl").write_text(
        '{"time": 2.5, "seconds": 1.0, "waiting": 0.4, "computing": 0.6, "iteration": 3, "error": "lost agent 1"}\n'
    )
    found = npga.runtimes.launch_sections(tmp_path)
    assert found[1]["rows"][0]["marks"] == [[1.0, "lost agent 1"]]


def test_figures_for_notebooks(small, tmp_path):
    pytest.importorskip("matplotlib")
    result = npga.solve(*small, "nids", STEPS, reference=npga.reference(small[0]).x)
    for by in ("iterations", "rounds", "floats_sent", "seconds"):
        axes = result.plot(by=by).axes[0]
        assert [line.get_label() for line in axes.lines] == [
            "optimality residual", "distance to the reference", "distance to consensus",
        ]  # fmt: skip
    result.trace.plot(tmp_path / "t.png", by="rounds")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="did you mean 'rounds'"):
        result.plot(by="round")


def test_copies_of_x_are_not_taken_for_multipliers():
    """With two agents the arrays of a consensus problem and of its coupling have the same shapes."""
    centers = np.array([[1.0, 2.0], [3.0, 0.0]])
    consensus = npga.ConsensusProblem(functions=[fn.SquaredNorm(1.0, center) for center in centers])
    result = npga.solve(consensus, npga.Network.complete(2), version="extra", trace="agents")
    np.testing.assert_allclose(result.x, [[2.0, 1.0]] * 2, atol=1e-6)
    assert not np.asarray(result.trace.agents.stationarity).any()
