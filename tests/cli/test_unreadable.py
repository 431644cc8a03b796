"""Files that are there and cannot be read, or not written: one sentence and exit code 2, whatever is wrong with them.

Permissions do not bind root, as whom tests may run; a folder in the place of a file fails at the same call.
"""

from __future__ import annotations

import pytest

from helpers.rehearsal import make_job


def spoil(path, how):
    """Put something in the place of a file."""
    whole = path.read_bytes()
    path.unlink()
    if how == "folder":
        path.mkdir()
    else:
        kinds = {"empty": b"", "cut": whole[: len(whole) // 2], "encoding": "\u00fc = 1\n".encode("utf-16")}
        path.write_bytes(kinds[how])


def assert_sentence(done, *words):
    assert done.exit_code == 2, done.output
    assert done.output.startswith("npga: ")
    assert "Traceback" not in done.output
    assert "pickle" not in done.output
    for word in words:
        assert word in done.output


TOML = [
    ("folder", "cannot be read (Is a directory); expected a {what}", "correct the path or its permissions"),
    ("encoding", "is not valid TOML ('utf-8' codec can't decode", "expected a {what}"),
]
NPZ = [
    ("folder", "cannot be read (Is a directory); expected an .npz: correct the path or its permissions"),
    ("empty", "is not a whole .npz of numbers (it is empty); write it again with numpy.savez"),
    ("cut", "is not a whole .npz of numbers (File is not a zip file); write it again with numpy.savez"),
    ("encoding", "is not a whole .npz of numbers (it does not begin like one); write it again with numpy.savez"),
]


@pytest.mark.parametrize("command", ["solve", "certify", "tune", "compare"])
@pytest.mark.parametrize(("how", "arrived", "remedy"), [*TOML, ("empty", "no section [problem]", "expected one")])
def test_problem_file(call, problem_file, command, how, arrived, remedy):
    path = problem_file()
    spoil(path, how)
    what = {"what": "problem file"}
    assert_sentence(call(command, path), str(path), arrived.format(**what), remedy.format(**what))


@pytest.mark.parametrize(("how", "words"), NPZ)
def test_data_of_a_problem(call, problem_file, how, words):
    path = problem_file()
    spoil(path.with_suffix(".npz"), how)
    assert_sentence(call("solve", path), str(path.with_suffix(".npz")), words)


@pytest.mark.parametrize("command", ["launch", "check", "keygen"])
@pytest.mark.parametrize(
    ("how", "arrived", "remedy"), [*TOML, ("empty", "no section [problem]; expected one", ""), ("cut", "", "job.toml")]
)
def test_job_file(call, tmp_path, command, how, arrived, remedy):
    path, *_ = make_job(tmp_path, 3, max_iters=5)
    spoil(path, how)
    assert_sentence(call(command, path), str(path), arrived.format(what="job.toml"), remedy.format(what="job.toml"))


@pytest.mark.parametrize(("how", "words"), NPZ)
def test_shared_data_of_a_job(call, tmp_path, how, words):
    path, *_ = make_job(tmp_path, 3, max_iters=5)
    spoil(tmp_path / "shared" / "h.npz", how)
    assert_sentence(call("launch", path, "--out", tmp_path / "out"), "shared/h.npz", words)


@pytest.mark.parametrize(("engine", "how"), [("inprocess", "folder"), ("mpi", "cut"), ("grpc", "encoding")])
def test_private_data_of_a_job(call, tmp_path, engine, how):
    """The party that cannot read its data ends with exit code 2, and so does the launch of all of them."""
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=5)
    spoil(tmp_path / "private" / "agent1.npz", how)
    done = call("launch", path, "--out", tmp_path / "out", "--engine", engine)
    assert_sentence(done, "private/agent1.npz", dict(NPZ)[how])


@pytest.mark.parametrize("how", ["folder", "empty", "cut"])
def test_certificate(call, tmp_path, how):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=5)
    spoil(tmp_path / "certificates" / "1.crt", how)
    done = call("launch", path, "--out", tmp_path / "out", "--engine", "grpc")
    assert_sentence(done, "1.crt is not a certificate as `npga keygen` makes it", "ask its owner for it")


def test_places_that_cannot_be_written(call, problem_file, tmp_path):
    path, (job, *_) = problem_file(), make_job(tmp_path / "job", 3, max_iters=5)
    for option in ("--out", "--report"):
        assert_sentence(call("solve", path, option, tmp_path), f"{tmp_path} is a folder; expected the name of a file")
    refused = "cannot be read or written (File exists); name a file or folder that this command may use"
    assert_sentence(call("solve", path, "--out", path / "x.npz"), f"{path} {refused}")
    assert_sentence(call("launch", job, "--out", path), f"{path} {refused}")


@pytest.mark.parametrize(("how", "words"), NPZ[1:])
def test_report_of_a_run(call, problem_file, tmp_path, how, words):
    out = tmp_path / "run.npz"
    assert call("solve", problem_file(), "--out", out).exit_code == 0
    spoil(out, how)
    assert_sentence(call("report", out), str(out), words)


def test_report_of_other_lines_and_other_folders(call, tmp_path):
    (tmp_path / "party0.jsonl").write_bytes(b"\xff\xfe")
    for command in ("report", "timeline"):
        assert_sentence(call(command, tmp_path), "holds no metrics; expected party*.jsonl")
    other = tmp_path / "other"
    other.mkdir()
    assert_sentence(call("report", other), "expected a folder that `npga launch`, `npga compare --out` or")
    (other / "comparison.jsonl").write_text('{"of": "somebody else"}\n')
    assert_sentence(call("report", other), "comparison.jsonl holds no comparison; expected what `npga compare --out`")
