"""Triggers of a ledger's table, by which a database refuses what nobody should do there.

Who owns the table can take these guards away.  They are there for everybody else who may write:
nothing is changed or removed, and a row is added at the end or not at all.
"""

from __future__ import annotations

from eree.budget.entries import ORIGIN
from eree.budget.refusals import OUT_OF_TURN

TABLE = "eree_ledger"
NEVER = "entries of a ledger are never changed or removed"
IN_TURN = "entries of a ledger are only added at its end"
SEALED = "entries of a ledger have the hash of their contents"
CARRIED = "entries of a ledger carry on what the last one carries"

SQLITE = (
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

POSTGRES = (
    f"CREATE FUNCTION {TABLE}_guard() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{NEVER}'; END $$",
    f"CREATE TRIGGER {TABLE}_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE}"
    f" FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_guard()",
    # its table by its full name, and nothing of the session's: who inserts may have made a
    # table of the same name for himself.  Who was overtaken reads again (see `refusals`).
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
