"""A party that dies, freezes, dawdles or lies at a given round; run as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import struct
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from npga.runtimes import MessageKind, Party, read_job
from npga.runtimes._wire import HEADER_SIZE, pack_word
from npga.runtimes.net import GrpcLink

_RUN, _SENDER, _LENGTH, _ROUND = slice(8, 16), slice(16, 20), slice(20, 24), slice(24, 32)


def spoil(frame: bytes, fault: str, before: bytes) -> list[bytes]:
    """What goes out instead of `frame`; `before` is the frame of the round before."""
    bad = bytearray(frame)
    if fault == "nan":
        bad[HEADER_SIZE : HEADER_SIZE + 8] = struct.pack("<d", np.nan)
    elif fault == "inf":
        bad[HEADER_SIZE : HEADER_SIZE + 8] = struct.pack("<d", np.inf)
    elif fault == "huge":
        bad[HEADER_SIZE : HEADER_SIZE + 8] = struct.pack("<d", 1e308)
    elif fault == "long":
        bad += bytes(150_000)
    elif fault == "short":
        bad = bad[:-8]
        bad[_LENGTH] = struct.pack("<I", (len(bad) - HEADER_SIZE) // 8)
    elif fault == "cut":
        bad = bad[:-3]
    elif fault == "float32":
        bad[6:7] = b"f"
    elif fault == "run":
        bad[_RUN] = struct.pack("<Q", 12345)
    elif fault == "sender":
        bad[_SENDER] = struct.pack("<I", 77)
    elif fault == "garbage":
        bad = bytearray(os.urandom(len(frame)))
    elif fault == "late":
        bad = bytearray(before)
    elif fault == "early":
        bad[_ROUND] = struct.pack("<Q", struct.unpack("<Q", frame[_ROUND])[0] + 1)
    elif fault == "duplicate":
        return [frame, frame]
    return [bytes(bad)]


class HostileLink(GrpcLink):
    """A link that goes wrong when round `at` is sent."""

    def __init__(self, job, me, fault, at, tape):
        super().__init__(job, me)
        self.fault, self.at, self.tape = fault, at, tape
        self.before, self.data = {}, -1
        for session in self._sessions.values():
            session._send = partial(self._send, session, session._send)

    def exchange(self, kind, number, vectors, meanwhile=lambda: None):
        if kind is MessageKind.DATA:
            if self.fault == "slow":
                time.sleep(0.05)
            word, _, hops = self.fault.partition(":")
            if number == self.at and word in ("waiting", "outage"):
                self._loop.run_until_complete(self._flood(MessageKind[word.upper()], int(hops or 0)))
            if number == self.at:
                misbehave(self.fault)
            self.data = number
        elif self.data >= self.at:
            vectors = {i: self._lie(vector) for i, vector in vectors.items()}
        return super().exchange(kind, number, vectors, meanwhile)

    def _lie(self, vector):
        """In the stopping round: first lam and z are shown, then maxima are passed on."""
        is_view, bad = vector.size == 2 * self._job.p, np.array(vector)
        if self.fault in ("lam", "z") and is_view:
            part = slice(None, self._job.p) if self.fault == "lam" else slice(self._job.p, None)
            bad[part] *= 1.0 + 1e-6
        elif self.fault == "maxima" and not is_view:
            bad[:] = 0.0
        return bad

    async def _flood(self, kind, hops):
        """Words about waiting, and never a message."""
        while True:
            for session in self._sessions.values():
                word = pack_word(session.run, self._me, kind, self._exchanges, hops)
                await session.say(lambda word=word: word)
            await asyncio.sleep(0.01)

    async def _send(self, session, honest, message, run):
        out, party = [message], session.party
        if message[5] == MessageKind.DATA and struct.unpack("<Q", message[_ROUND])[0] == self.at:
            if self.fault == "record":
                self.tape.write_bytes(message)
            out = [self.tape.read_bytes()] if self.fault == "replay" else spoil(message, self.fault, self.before[party])
        self.before[party] = message
        for part in out:
            await honest(part, run)


def misbehave(fault):
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "silent":
        time.sleep(600)
    elif fault == "crash":
        raise RuntimeError("the disk is full")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--party", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--fault")
    parser.add_argument("--at", type=int)
    parser.add_argument("--tape", type=Path)
    options = parser.parse_args()
    job = read_job(options.job)
    link = HostileLink(job, options.party, options.fault, options.at, options.tape)
    try:
        Party(job, job.layout, options.party, link, options.out, options.resume).run()
    except Exception as error:  # the neighbours' answer to what it did
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
