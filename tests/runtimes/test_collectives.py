"""The rows of an MPI round, with a postman instead of MPI."""

import secrets
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import npga
from npga.errors import InputError
from npga.runtimes import BadMessage, Hello, Layout, MessageKind
from npga.runtimes._wire import HEADER_SIZE, Due, run_number
from npga.runtimes.mpi import RepeatedCollective

RUN, LENGTH = 0x123456789ABCDE, 5
LAYOUTS = {"one agent each": [[0], [1], [2], [3]], "two parties": [[0, 1], [2, 3]]}


class Postman:
    """Stands in for the communicator: keeps what a rank sends, and where it wants to be sent to."""

    def Ineighbor_allgather(self, rows, incoming):
        self.rows, self.counts, self.incoming = bytes(rows), None, incoming

    def Ineighbor_alltoallv(self, rows, incoming):
        (rows, self.counts), (self.incoming, _) = rows, incoming
        self.rows = bytes(rows)

    def Neighbor_allgather_init(self, rows, incoming):
        raise NotImplementedError

    Neighbor_alltoallv_init = Neighbor_allgather_init

    def part(self, k):
        """What goes to the k-th neighbour."""
        if self.counts is None:
            return self.rows
        return self.rows[sum(self.counts[:k]) : sum(self.counts[: k + 1])]


class ModernPostman(Postman):
    """Of MPI 4: the buffers are named once, and every start sends what is in them then."""

    def Neighbor_allgather_init(self, rows, incoming):
        return SimpleNamespace(Start=lambda: self.Ineighbor_allgather(rows, incoming))

    def Neighbor_alltoallv_init(self, rows, incoming):
        return SimpleNamespace(Start=lambda: self.Ineighbor_alltoallv(rows, incoming))


class Ranks:
    def __init__(self, parties, dtype, postman):
        network = npga.Network.path(4)
        self.layout = Layout(network, parties)
        self.postmen = [postman() for _ in parties]
        self._dtype, self._collectives = np.dtype(dtype), {}

    def collectives(self, kind):
        if kind not in self._collectives:
            due = Due(RUN, 0, kind, 0, LENGTH, self._dtype)
            self._collectives[kind] = [
                RepeatedCollective(postman, self.layout, me, due) for me, postman in enumerate(self.postmen)
            ]
        return self._collectives[kind]

    def start(self, vectors, number=1, kind=MessageKind.DATA):
        """All ranks send; everything is delivered."""
        for collective, agents in zip(self.collectives(kind), self.layout.parties, strict=True):
            collective.start(number, {i: vectors[i] for i in agents})
        borders = [list(self.layout.borders(me)) for me in range(len(self.postmen))]
        for me, postman in enumerate(self.postmen):
            memoryview(postman.incoming)[:] = b"".join(self.postmen[q].part(borders[q].index(me)) for q in borders[me])

    def finish(self, number=1, kind=MessageKind.DATA):
        return [collective.finish(number) for collective in self.collectives(kind)]


@pytest.fixture(params=[(layout, postman) for layout in LAYOUTS for postman in (Postman, ModernPostman)], ids=str)
def ranks(request):
    layout, postman = request.param
    return lambda dtype=np.float64: Ranks(LAYOUTS[layout], dtype, postman)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_sent_arrives_in_every_round_and_kind(ranks, dtype):
    rng = np.random.default_rng(0)
    ranks = ranks(dtype)
    for number, kind in [
        (1, MessageKind.DATA),
        (2, MessageKind.DATA),
        (2, MessageKind.CONTROL),
        (2**40, MessageKind.DATA),
    ]:
        vectors = rng.standard_normal((4, LENGTH)).astype(dtype)
        ranks.start(vectors, number, kind)
        for me, heard in enumerate(ranks.finish(number, kind)):
            expected = {j for border in ranks.layout.borders(me).values() for j in border.theirs}
            assert heard.keys() == expected
            for j, vector in heard.items():
                assert vector.dtype == dtype
                assert np.array_equal(vector, vectors[j])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("entry", [0, LENGTH - 1])
def test_huge_numbers_pass_and_those_beyond_do_not(ranks, dtype, entry):
    limit = dtype(2.0 ** (1009 if dtype is np.float64 else 127))
    largest = np.nextafter(limit, dtype(0))
    for number, value in enumerate([largest, -largest, largest / 2, np.finfo(dtype).tiny], 1):
        every, vectors = ranks(dtype), np.zeros((4, LENGTH), dtype)
        vectors[:, entry] = value
        every.start(vectors, number)
        every.finish(number)
    for value in (np.inf, -np.inf, np.nan, -np.nan, limit, -limit, np.finfo(dtype).max):
        every, vectors = ranks(dtype), np.zeros((4, LENGTH), dtype)
        vectors[2, entry] = value
        every.start(vectors)
        with pytest.raises(BadMessage, match=f"entry {entry} is"):
            every.finish()


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(LENGTH - 1),
        np.zeros(LENGTH + 1),
        np.zeros(LENGTH, np.float32),
        np.zeros(LENGTH, np.int64),
        np.zeros((1, LENGTH)),
    ],
    ids=lambda u: f"{u.shape}{u.dtype}",
)
def test_a_vector_of_another_length_or_type_is_not_sent(ranks, wrong):
    vectors = [np.zeros(LENGTH), np.zeros(LENGTH), wrong, np.zeros(LENGTH)]
    with pytest.raises(InputError, match=f"agent 2 has shape .* expected {LENGTH} entries of float64"):
        ranks().start(vectors)


def test_a_vector_may_be_a_view_with_gaps(ranks):
    vectors = np.arange(8.0 * LENGTH).reshape(LENGTH, 8).T[::2]
    every = ranks()
    every.start(vectors)
    for heard in every.finish():
        for j, vector in heard.items():
            assert np.array_equal(vector, vectors[j])


def test_headers_do_not_look_like_numbers_out_of_range():
    hellos = [Hello(k, (k,), "job", 1, "float64", 0) for k in range(2)]
    for _ in range(200):
        run = run_number(*(replace(hello, nonce=secrets.token_hex(16)) for hello in hellos))
        assert not {0x7F, 0xFF} & set(run.to_bytes(8, "little"))


def test_every_byte_of_a_header_counts(ranks):
    for at in range(HEADER_SIZE):
        every = ranks()
        every.start(np.zeros((4, LENGTH)))
        every.postmen[0].incoming[at] ^= 1
        with pytest.raises(BadMessage):
            every.collectives(MessageKind.DATA)[0].finish(1)


def test_an_earlier_round_or_another_kind_is_refused(ranks):
    every = ranks()
    every.start(np.zeros((4, LENGTH)), 3)
    with pytest.raises(BadMessage, match="round 3 arrived; expected kind 1, round 4"):
        every.finish(4)
    kept = [bytes(postman.incoming) for postman in every.postmen]
    every.start(np.zeros((4, LENGTH)), 3, MessageKind.CONTROL)
    for postman, old in zip(every.postmen, kept, strict=True):
        memoryview(postman.incoming)[:] = old
    with pytest.raises(BadMessage, match="kind 1, round 3 arrived; expected kind 2"):
        every.finish(3, MessageKind.CONTROL)
