"""The comparison with DCPA, on numbers that were put there."""

from npga.experiments._figures import advantages
from npga.experiments._report import advantage_cells, markdown_table, steps_cells, tuned_cells, verdict


def run(version, repetition, iterations, rounds, **other):
    levels = {f"{count}_{level}": value for level in ("1e-4", "1e-8", "1e-12")
              for count, value in (("iterations", iterations), ("rounds", rounds))}  # fmt: skip
    base = {"version": version, "repetition": repetition, "setting": "tuned", "mixing": "W", "chosen": 1,
            "rounds_per_iteration": 1, "status": "converged", "iterations": iterations, "rate_measured": 0.9,
            "rate_predicted": 0.9, "alpha": 1.0, "beta": 1.0, "gamma": 1.0, "theta": 0.0, "c": None,
            "tuning_work": 7}  # fmt: skip
    return base | levels | other


RUNS = [
    run("dcpa", 0, 1000, 1000), run("nids", 0, 400, 400), run("npga-i", 0, 200, 2000), run("p2d2", 0, 300, 300),
    run("dcpa", 1, 900, 900), run("nids", 1, 800, 800), run("npga-i", 1, 300, 600), run("p2d2", 1, 890, 890),
    run("nids", 0, 1, 1, chosen=0),
]  # fmt: skip


def test_ratios_are_taken_draw_by_draw_from_the_chosen_runs():
    table = {line["version"]: line for line in advantages(RUNS)}
    assert "dcpa" not in table
    assert table["nids"]["iterations"] == [2.5, 1.125]
    assert table["npga-i"]["rounds"] == [0.5, 1.5]
    assert "| NIDS | ATC | 1.81 | 1.12 | 2.50 | 2/2 |" in markdown_table(*advantage_cells(advantages(RUNS)))


def test_the_verdict_counts_versions_that_win_both_ways():
    said = verdict(RUNS)
    assert "In 2 of 2 draws" in said  # P2D2 in the first (3.3 times), NPGA-I in the second (1.5 times)
    assert "P2D2: 2.17 times fewer iterations" in said  # of either family
    assert "better in both in 2 of 2" in said


def test_nothing_is_said_about_runs_that_did_not_arrive():
    late = [run("dcpa", 0, 1000, 1000), run("nids", 0, None, None)]
    assert "nothing to compare" in verdict(late)


def test_tables_show_a_dash_where_a_draw_did_not_arrive():
    late = [run("dcpa", 0, 1000, 1000), run("dcpa", 1, None, None)]
    assert "| DCPA | CTA | W | 1 | - | - | - |" in markdown_table(*tuned_cells(late))
    assert "| NIDS | 1 | 1 | 1 | 0 | - |" in markdown_table(*steps_cells(RUNS))
