"""What can go wrong with the database of a ledger, in our words.

A database that fails speaks in words of its own, which help nobody and may quote a password.  Each
refusal here is named for what its reader can do about it.  One that comes in the middle of a commit
leaves open whether the entry was written; then the ledger itself has to be asked.

And what a database itself refuses, by triggers of a ledger's table.  Who owns the table can take
these guards away.  They are there for everybody else who may write: nothing is changed or removed,
and a row is added at the end or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eree.budget.entries import ORIGIN
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


TABLE = "eree_ledger"
NEVER = "entries of a ledger are never changed or removed"
IN_TURN = "entries of a ledger are only added at its end"
SEALED = "entries of a ledger have the hash of their contents"
CARRIED = "entries of a ledger carry on what the last one carries"

SQLITE_GUARDS = (
    f"CREATE TRIGGER {TABLE}_update BEFORE UPDATE ON {TABLE}"
    f" BEGIN SELECT RAISE(ABORT, '{NEVER}'); END",
    f"CREATE TRIGGER {TABLE}_delete BEFORE DELETE ON {TABLE}"
    f" BEGIN SELECT RAISE(ABORT, '{NEVER}'); END",
    # INSERT OR REPLACE removes a row, of the same number or about the same, without asking the
    # trigger above
    f"CREATE TRIGGER {TABLE}_insert BEFORE INSERT ON {TABLE}"
    f" WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM {TABLE})"
    f" OR NEW.previous IS NOT coalesce("
    f"(SELECT hash FROM {TABLE} ORDER BY number DESC LIMIT 1), '{ORIGIN}')"
    f" OR EXISTS (SELECT 1 FROM {TABLE} WHERE about = NEW.about)"
    f" BEGIN SELECT RAISE(ABORT, '{IN_TURN}'); END",
)

#: A fraction as bodies have it; none is negative.
_FRACTION = "^[0-9]+(/[1-9][0-9]*)?$"
#: Whoever spends reads the last two rows alone, so two rows that agree with each other must not be
#: able to forget what was spent before them, or under which declaration.
_CARRY_ON = f"""
    stated := NEW.body; was := last.body::json -> 'then';
    FOREACH name IN ARRAY ARRAY['epsilon', 'delta'] LOOP
        sums := ARRAY[stated -> 'then' -> 'spent' ->> name, was -> 'spent' ->> name,
            CASE NEW.kind WHEN 'reserve' THEN stated -> 'price' ->> name ELSE '0' END];
        fits := fits AND (
            SELECT bool_and(coalesce(one, '') ~ '{_FRACTION}') FROM unnest(sums) AS one);
        CONTINUE WHEN NOT fits;
        SELECT array_agg(split_part(one, '/', 1)::numeric ORDER BY place),
            array_agg(coalesce(nullif(split_part(one, '/', 2), ''), '1')::numeric ORDER BY place)
            INTO over, under FROM unnest(sums) WITH ORDINALITY AS parts (one, place);
        fits := over[1] * under[2] * under[3]
            = under[1] * (over[2] * under[3] + over[3] * under[2]);
    END LOOP;
    bound := coalesce(nullif(was ->> 'declaration', ''), stated ->> 'declaration', '');
    fits := fits AND stated -> 'then' ->> 'declaration' IS NOT DISTINCT FROM bound
        AND coalesce(stated ->> 'declaration', bound) = bound AND stated -> 'then' ->> 'heads'
        IS NOT DISTINCT FROM CASE NEW.kind WHEN 'heads' THEN stated ->> 'place'
        ELSE was ->> 'heads' END;
    IF NOT fits THEN RAISE EXCEPTION '{CARRIED}'; END IF;
"""

POSTGRES_GUARDS = (
    f"CREATE FUNCTION {TABLE}_guard() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{NEVER}'; END $$",
    f"CREATE TRIGGER {TABLE}_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE}"
    f" FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_guard()",
    # its table by its full name, and nothing of the session's: who inserts may have made a
    # table of the same name for himself.  Who was overtaken reads again (see `BY_SQLSTATE`).
    f"CREATE FUNCTION {TABLE}_turn() RETURNS trigger LANGUAGE plpgsql"
    " SET search_path = pg_catalog, pg_temp AS $$ DECLARE last record; stated json; was json;"
    " name text; sums text[]; over numeric[]; under numeric[]; bound text; fits boolean := true;"
    " BEGIN EXECUTE 'SELECT number, hash, body FROM ' || quote_ident(TG_TABLE_SCHEMA) || '.'"
    " || quote_ident(TG_TABLE_NAME) || ' ORDER BY number DESC LIMIT 1' INTO last;"
    " IF NEW.number IS DISTINCT FROM coalesce(last.number, 0) + 1"
    f" OR NEW.previous IS DISTINCT FROM coalesce(last.hash, '{ORIGIN}') THEN"
    f" RAISE EXCEPTION '{IN_TURN}' USING ERRCODE = '{OUT_OF_TURN}';"
    # what `seal` hashes: a body is ASCII, of which JSON has one text
    " END IF; IF NEW.hash IS DISTINCT FROM encode(sha256(convert_to('[' || NEW.number || ','"
    " || to_json(NEW.kind) || ',' || to_json(NEW.body) || ',' || to_json(NEW.previous) || ']',"
    " 'UTF8')), 'hex') THEN"
    f" RAISE EXCEPTION '{SEALED}'; END IF;"
    f" IF last.number IS NOT NULL THEN {_CARRY_ON} END IF; RETURN NEW; END $$",
    f"CREATE TRIGGER {TABLE}_turn BEFORE INSERT ON {TABLE}"
    f" FOR EACH ROW EXECUTE FUNCTION {TABLE}_turn()",
)
