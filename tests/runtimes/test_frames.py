"""Messages: what was packed comes back, and whatever was changed on the way is refused with its reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npga
from npga.errors import InputError
from npga.runtimes import BadMessage, ExitCode, Hello, Layout, MessageKind, PeerLost
from npga.runtimes._faults import Farewell, Reason, exit_code, farewell_of, printable
from npga.runtimes._wire import HEADER_SIZE, Due, PacketForm, frame_size, pack_bytes, run_number, unpack, unpack_hello

FLOAT = np.dtype(np.float64)


def pack(run, sender, kind, number, vector):
    form = PacketForm(Due(run, sender, kind, 0, vector.size, vector.dtype), [(sender, "")])
    return form.write(number, form.payloads({sender: vector}))


@given(
    run=st.integers(0, 2**64 - 1), sender=st.integers(0, 2**32 - 1), number=st.integers(0, 2**64 - 1),
    size=st.integers(0, 50), dtype=st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_a_vector_comes_back_bit_for_bit(run, sender, number, size, dtype):
    vector = np.random.default_rng(size).standard_normal(size).astype(dtype)
    frame = pack(run, sender, MessageKind.DATA, number, vector)
    assert len(frame) == frame_size(size, vector.dtype) == HEADER_SIZE + vector.nbytes
    found = unpack(frame, Due(run, sender, MessageKind.DATA, number, size, vector.dtype), "agent 1")
    assert found.dtype == vector.dtype
    np.testing.assert_array_equal(found, vector)


@given(position=st.integers(0, HEADER_SIZE - 1), change=st.integers(1, 255))
def test_no_changed_header_is_accepted(position, change):
    frame = bytearray(pack(7, 3, MessageKind.DATA, 9, np.arange(4.0)))
    frame[position] ^= change
    with pytest.raises((BadMessage, PeerLost)):
        unpack(bytes(frame), Due(7, 3, MessageKind.DATA, 9, 4, FLOAT), "agent 3")


@given(cut=st.integers(0, HEADER_SIZE + 31))
def test_no_cut_message_is_accepted(cut):
    frame = pack(7, 3, MessageKind.DATA, 9, np.arange(4.0))
    with pytest.raises(BadMessage):
        unpack(frame[:cut], Due(7, 3, MessageKind.DATA, 9, 4, FLOAT), "agent 3")
    with pytest.raises(BadMessage):
        unpack(frame + frame[: cut + 1], Due(7, 3, MessageKind.DATA, 9, 4, FLOAT), "agent 3")


FORM = PacketForm(Due(7, 0, MessageKind.DATA, 0, 4, FLOAT), [(3, "party 1"), (5, "party 1")])
ROUND = FORM.write(9, FORM.payloads({3: np.arange(4.0), 5: -np.arange(4.0)}))


def test_a_block_holds_the_messages_of_several_agents():
    FORM.check(ROUND, FORM.heads(ROUND), 9)
    found = FORM.vectors(ROUND)
    np.testing.assert_array_equal(found[3], np.arange(4.0))
    np.testing.assert_array_equal(found[5], -np.arange(4.0))


@given(cut=st.integers(0, 2 * FORM.frame - 1))
def test_no_block_of_another_size_is_accepted(cut):
    for wrong in (ROUND[:cut], ROUND + ROUND[: cut + 1]):
        with pytest.raises(BadMessage):
            FORM.check(wrong, FORM.heads(wrong), 9)


@given(position=st.integers(0, HEADER_SIZE - 1), change=st.integers(1, 255), second=st.booleans())
def test_no_block_with_a_changed_header_is_accepted(position, change, second):
    wrong = bytearray(ROUND)
    wrong[position + second * FORM.frame] ^= change
    with pytest.raises((BadMessage, PeerLost)):
        FORM.check(wrong, FORM.heads(wrong), 9)


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(4, np.float32), np.zeros(4, np.int64), np.zeros((1, 4))])
def test_a_vector_that_the_header_does_not_promise_is_not_sent(wrong):
    with pytest.raises(InputError, match=r"agent 5 has shape .* expected 4 entries of float64"):
        FORM.payloads({3: np.zeros(4), 5: wrong})


def test_a_farewell_carries_a_code_an_agent_and_a_round_and_is_passed_on_as_it_is():
    bye = Farewell(Reason.SLOW, 5, 17)
    with pytest.raises(PeerLost, match="lost agent 3: it gave up waiting for agent 5 in round 17") as caught:
        unpack(pack_bytes(7, 3, MessageKind.BYE, bye.pack()), Due(7, 3, MessageKind.DATA, 9, 4, FLOAT), "agent 3")
    assert farewell_of(caught.value, 0, 18) == bye
    with pytest.raises(BadMessage, match="replayed, or another job"):
        unpack(pack_bytes(8, 3, MessageKind.BYE, bye.pack()), Due(7, 3, MessageKind.DATA, 9, 4, FLOAT), "agent 3")


@pytest.mark.parametrize("error", [InputError("secret 3.14"), OSError(28, "secret"), RuntimeError("secret"), None])
def test_no_words_of_an_error_are_in_a_farewell(error):
    bye = farewell_of(error, 4, 9)
    assert len(bye.pack()) == 13
    assert Farewell.read(bye.pack()) == bye
    assert "secret" not in bye.sentence


@given(st.binary(max_size=40))
def test_any_bytes_are_a_farewell(payload):
    assert Farewell.read(payload).sentence


def test_codes_say_whether_to_try_again():
    assert exit_code(PeerLost("agent 1", "gone")) == ExitCode.TRY_AGAIN
    assert exit_code(BadMessage("agent 1", "its p differs")) == ExitCode.REFUSED
    assert exit_code(PeerLost("agent 1", "", Farewell(Reason.REFUSED, 2, 3))) == ExitCode.REFUSED
    assert exit_code(InputError("no such file")) == ExitCode.BAD_INPUT
    assert exit_code(OSError(28, "full")) == exit_code(ZeroDivisionError()) == ExitCode.FAILED


def test_words_from_elsewhere_are_cut_and_stripped():
    assert printable("a\x1b[2Jb\nc") == "a?[2Jb?c"
    assert len(printable("x" * 10_000)) < 200


def hello(party=0, **changes):
    agents = changes.pop("agents", (party,))
    return Hello(
        **({"party": party, "agents": agents, "job": "d", "p": 4, "dtype": "float64", "checkpoint_rounds": 9} | changes)
    )


def test_hellos_come_back_and_make_a_new_number_for_every_run():
    first, second = hello(), hello(1)
    assert (
        Hello.read(unpack_hello(pack_bytes(0, 0, MessageKind.HELLO, first.text().encode()), "agent 0"), "agent 0")
        == first
    )
    assert run_number(first, second) == run_number(second, first)
    assert run_number(first, second) != run_number(hello(), second)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p": 5}, "its p is 5 and here it is 4"),
        ({"dtype": "float32"}, "its dtype is float32"),
        ({"job": "e"}, "compare the shared parts of job.toml"),
        ({"protocol": 99}, "same release"),
        ({"checkpoint_rounds": 8}, "same rounds"),
        ({"limits": "max_iters 7"}, r"compare \[stop\]"),
        ({"agents": (2,)}, r"party 1 with agents \[2\]"),
    ],
)
def test_a_neighbour_that_is_about_to_run_something_else_is_refused(changes, words):
    layout = Layout(npga.Network.path(2), [[0], [1]])
    with pytest.raises(BadMessage, match=words):
        hello().agree(hello(1, **changes), 1, layout)


def odd_hellos():
    good = json.loads(hello().text())
    changes = [
        {"party": -1}, {"party": "0"}, {"agents": 3}, {"agents": ["0"]}, {"p": 4.5}, {"p": 10**400}, {"job": 7},
        {"job": "x" * 10_000}, {"release": "\x1b[2J"}, {"clock": "now"}, {"dtype": None}, {"more": 1}, {"nonce": []},
    ]  # fmt: skip
    return [json.dumps(good | change) for change in changes] + [json.dumps({**good, "clock": float("nan")})]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"party": 1}', '{"agents": 3}', "null", "[" * 5000, *odd_hellos()])
def test_a_hello_that_cannot_be_read_is_refused(text):
    with pytest.raises(BadMessage, match="cannot be read"):
        Hello.read(text, "agent 1")
    for frame in (b"", b"GET / HTTP/1.1\r\n\r\n" * 3, pack(0, 0, MessageKind.DATA, 0, np.zeros(2))):
        with pytest.raises(BadMessage):
            unpack_hello(frame, "agent 1")
