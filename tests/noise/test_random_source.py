"""Random: fair, secret, and never the same twice."""

from __future__ import annotations

import copy
import os
import pickle
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from eree.errors import Refusal
from eree.random.source import Random, SeededRandom
from processes import ended


def test_two_random_sources_never_agree() -> None:
    first, second = Random().words(1000), Random().words(1000)
    assert len(np.intersect1d(first, second)) == 0


def test_a_stream_goes_on_whatever_the_portions() -> None:
    whole = SeededRandom(7).words(300_000)
    random = SeededRandom(7)
    parts = [random.words(n) for n in (0, 1, 2, 131_072, 168_925)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert whole.dtype == np.uint64


def test_the_stream_is_aes_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    key = bytes(range(32))
    monkeypatch.setattr("os.urandom", lambda n: key[:n])
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(64))
    assert Random().words(8).tolist() == np.frombuffer(stream, "<u8").tolist()


def test_bits_are_fair_and_words_are_spread() -> None:
    """Each of 64 bits within 5 standard deviations: false alarm below 1 in 10,000."""
    words = SeededRandom(1).words(1_000_000)
    ones = [(words >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)]
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / 1000
    assert len(np.unique(words)) == 1_000_000


@pytest.mark.parametrize("same_number", [False, True])
def test_a_fork_does_not_repeat_its_parent(
    same_number: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that has its parent's number, as the first process of a namespace can have."""
    if same_number:
        monkeypatch.setattr(os, "getpid", lambda: 1)
    random = Random()
    random.words(3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, random.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 32), "<u8")
    os.close(reader)
    os.close(writer)
    assert len(np.intersect1d(theirs, random.words(4))) == 0


#: Two processes, a parent and its child, each the first of its own PID namespace.
FIRST_OF_TWO_NAMESPACES = """
import ctypes, os
NEWPID, NEWUSER = 0x20000000, 0x10000000
libc = ctypes.CDLL(None, use_errno=True)

def enter():
    # whoever is not root needs a namespace of users as well
    if libc.unshare(NEWPID) and libc.unshare(NEWPID | NEWUSER):
        os.getpid = lambda: 1  # no namespace can be made here

enter()
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
from eree.random.source import Random
random = Random()
random.words(3)
enter()
child = os.fork()
if child:
    os.waitpid(child, 0)
print(os.getpid(), *random.words(4), flush=True)
"""


def test_the_first_process_of_a_namespace_does_not_repeat_its_parent() -> None:
    done = ended([sys.executable, "-c", FIRST_OF_TWO_NAMESPACES])
    assert done.returncode == 0, done.stderr
    child, parent = (line.split() for line in done.stdout.splitlines())
    assert child[0] == parent[0] == "1"
    assert len({*child[1:], *parent[1:]}) == 8


def test_seeded_sources_repeat_and_say_that_they_are_not_secret() -> None:
    assert np.array_equal(SeededRandom(3).words(5), SeededRandom(3).words(5))
    assert not np.array_equal(SeededRandom(3).words(5), SeededRandom(4).words(5))
    assert Random.secret
    assert not SeededRandom(3).secret


def test_random_sources_cannot_be_copied_stored_or_read() -> None:
    random = Random()
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Refusal, match="cannot be copied"):
            action(random)
    assert repr(random) == "<Random>"
    with pytest.raises(Refusal, match="negative"):
        random.words(-1)
    for seed in (-1, True, "a"):
        with pytest.raises(Refusal, match="seed must be"):
            SeededRandom(seed)
