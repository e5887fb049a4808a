"""What can go wrong with the database of a ledger, in our words.

A database that fails speaks in words of its own, which help nobody and may quote a password.  Each
refusal here is named for what its reader can do about it.  One that comes in the middle of a commit
leaves open whether the entry was written; then the ledger itself has to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eree.errors import Refusal, Unreadable

WAIT_SECONDS = 60.0
"""How long a process waits for the lock of another one."""

#: What a server says to a row that is not the next one.
OUT_OF_TURN = "EREE1"
_LOOK = "see with 'eree ledger show' what was written"


class Busy(Refusal):
    """Another process holds the lock; it may be free in a moment."""


class Unreachable(Unreadable):
    """There is no connection to the database."""


class DamagedStore(Unreadable):
    """The database cannot read what it keeps."""


def busy(name: str) -> Refusal:
    """The lock is taken."""
    return Busy(
        f"another process has been writing to {name} for {WAIT_SECONDS:.0f} seconds; try again"
        " when it has finished"
    )


def damaged(name: str) -> Refusal:
    """The database finds its own file wrong."""
    return DamagedStore(
        f"{name} is damaged, or is no ledger; check it with 'eree ledger verify', and go on from a"
        " copy that holds every entry a release names"
    )


def no_ledger(name: str) -> Refusal:
    """There is a database, and no ledger in it."""
    return Unreadable(f"{name} holds no ledger; 'eree ledger create' makes one")


def missing(name: str) -> Refusal:
    """There is no such file, or none that can be seen."""
    return Unreadable(
        f"there is no ledger to be seen at {name}; check the path, or make one with 'eree ledger"
        " create'"
    )


def exists(name: str) -> Refusal:
    """A ledger is to be made where something is already."""
    return Refusal(f"{name} exists already, and a ledger is never replaced; choose another place")


def no_room(name: str) -> Refusal:
    """The disk is full, or worse."""
    return Refusal(f"there is no room for {name}, or its disk fails; make room, and {_LOOK}")


def not_writable(name: str) -> Refusal:
    """A file that can be read at most."""
    return Refusal(
        f"{name} cannot be written; it takes the permission to write the file and its folder"
    )


def linked(name: str) -> Refusal:
    """A file with two names, under which two processes would not see each other's lock."""
    return Refusal(
        f"{name} has more than one name (a hard link), and who spends under the other would not be"
        " seen; remove the other names, and make backups as copies"
    )


def mounted(name: str) -> Refusal:
    """A file that is mounted without its folder: the same, and a crash may lose what is beside."""
    return Refusal(
        f"{name} is mounted without its folder, and who spends where it comes from would not be"
        " seen; mount the folder that it lies in"
    )


def not_readable(name: str) -> Refusal:
    """A file that cannot even be read, or is none."""
    return Unreadable(
        f"{name} cannot be opened; a ledger is a file, and it takes the permission to read it"
    )


def not_permitted(name: str) -> Refusal:
    """A login that may not use the table."""
    return Refusal(
        f"the login may not use the ledger in {name}; it takes SELECT on the table eree_ledger,"
        " and INSERT to spend"
    )


def read_only(name: str) -> Refusal:
    """A server that takes nothing new, such as a standby."""
    return Refusal(f"{name} can only be read; spend from the server that it follows")


def unreachable(name: str) -> Refusal:
    """There is no server, no database or no login."""
    return Unreachable(
        f"{name} cannot be reached, or refuses the login; check the address, the login and that"
        " the server runs"
    )


def cut_off(name: str) -> Refusal:
    """The server went away in the middle."""
    return Unreadable(f"the connection to {name} broke; {_LOOK} when the server runs again")


def unknown(name: str, code: object) -> Refusal:
    """Anything else; the code is the database's."""
    return Refusal(f"the database refused to work on {name} (code {code}); {_LOOK}")


#: By SQLite's primary result code.
BY_RESULT_CODE: Mapping[int, Callable[[str], Refusal]] = {
    1: no_ledger,  # SQLITE_ERROR: no such table, no such column
    3: not_writable,  # SQLITE_PERM
    5: busy,  # SQLITE_BUSY
    6: busy,  # SQLITE_LOCKED
    8: not_writable,  # SQLITE_READONLY
    10: no_room,  # SQLITE_IOERR
    11: damaged,  # SQLITE_CORRUPT
    13: no_room,  # SQLITE_FULL
    14: not_readable,  # SQLITE_CANTOPEN
    15: busy,  # SQLITE_PROTOCOL: many opened the file at the same moment
    26: damaged,  # SQLITE_NOTADB
}

#: By PostgreSQL's SQLSTATE, or by its first two characters, the class.
BY_SQLSTATE: Mapping[str, Callable[[str], Refusal]] = {
    "": unreachable,  # there was no server to give a code
    "08": unreachable,
    "23505": busy,  # somebody without the lock came first: everything is read again
    "25006": read_only,
    "28": unreachable,
    "3D": unreachable,
    "3F": no_ledger,
    "40": busy,
    "42501": not_permitted,
    "42703": no_ledger,
    "42P01": no_ledger,
    "53": no_room,
    "55P03": busy,  # the lock was waited for in vain
    "57": unreachable,
    "58": no_room,
    "XX": damaged,
    OUT_OF_TURN: busy,  # somebody without the lock came first, as above
}
