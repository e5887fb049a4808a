"""Why a question is refused, in the language of the page, and what was perhaps meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from eree.errors import Refusal, hint
from eree.web.words import Joined, say

#: Names that are compared with what was written, each; of more, only those one slip away are found.
_MOST_COMPARED = 60
#: Letters of a name that anyone may have meant another by.
_MOST_LETTERS = 40
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_. "


class NotKnown(Refusal):
    """A name that is none of those that are known here."""

    def __init__(self, reason: str, name: str, known: Collection[str]) -> None:
        super().__init__(reason)
        self.name, self._known = name, known

    def meant(self) -> str:
        """What was perhaps meant, as the end of the reason; it is looked for when it is shown.

        However many names there are, it takes no longer than a thousand of them are looked up in.
        """
        if not 1 < len(self.name) <= _MOST_LETTERS:
            return ""
        known: Collection[str] = self._known
        if len(known) > _MOST_COMPARED:
            known = [one for one in _one_slip_away(self.name) if one in self._known][:1]
        found = hint(self.name, known)
        if not found:
            return ""
        return say("; did you mean %(other)s?", other=found[len("; did you mean ") : -1])


def reason_of(refusal: Refusal) -> str:
    """Why something is refused, as a text that a page says in its language."""
    reason = str(refusal.args[0]) if not isinstance(refusal.args[0], str) else refusal.args[0]
    if isinstance(refusal, NotKnown) and (meant := refusal.meant()):
        return Joined("", (reason, meant))
    return reason


def no_variable(name: str, known: Mapping[str, Collection[str]]) -> Refusal:
    """A variable that a data set has not; `known` are those it has, each with its levels."""
    for one in (one for one, levels in known.items() if name in levels):
        asked = f"group.{one}={name}"
        return Refusal(
            say(
                "%(level)s is a level of %(name)s: %(example)s", level=name, name=one, example=asked
            )
        )
    said = say(
        "there is no variable %(name)s in this data set; it has %(known)s",
        name=repr(name),
        known=", ".join(known) or say("none"),
    )
    return NotKnown(said, name, known)


def no_code(variable: str, code: str, known: Collection[str]) -> Refusal:
    """A code that a variable has not."""
    said = say(
        "%(name)s has no code %(code)s; choose from its list", name=variable, code=repr(code)
    )
    return NotKnown(said, code, known)


def no_level(variable: str, level: str, known: Collection[str]) -> Refusal:
    """A level that a variable has not."""
    there = ", ".join(known) or say("no levels")
    given = {"name": variable, "level": repr(level), "known": there}
    said = say("%(name)s has no level %(level)s; it has %(known)s", **given)
    return NotKnown(said, level, known)


def no_measure(name: str, known: Collection[str]) -> Refusal:
    """A measure that a data set has not."""
    there = ", ".join(known)
    said = say("there is no measure %(name)s; there is %(known)s", name=repr(name), known=there)
    return NotKnown(said, name, known)


def no_setting(name: str, known: Collection[str]) -> Refusal:
    """A part of an address that means nothing."""
    there = ", ".join(known)
    said = say("there is no setting %(name)s; there are %(known)s", name=repr(name), known=there)
    return NotKnown(said, name, known)


def no_error(name: str, known: Collection[str], elsewhere: Collection[str]) -> Refusal:
    """An error that a data set does not show, though another may."""
    there = ", ".join(known)
    if name in elsewhere:
        return Refusal(
            say(
                "this data set has no %(name)s, because its noise depends on a confidential"
                " number; choose from %(known)s",
                name=name,
                known=there,
            )
        )
    said = say(
        "there is no error %(name)s to show; choose from %(known)s", name=repr(name), known=there
    )
    return NotKnown(said, name, known)


def twice(name: str) -> Refusal:
    """A setting that has two values."""
    return Refusal(say("%(name)s is given twice; give it once", name=name))


def too_many_words(most: int) -> Refusal:
    """A search for more words than one looks for."""
    return Refusal(say("at most %(most)s words are looked for at once; name fewer", most=most))


def _one_slip_away(name: str) -> Iterator[str]:
    """What a name may have been before a letter was missed, added, changed or put too late."""
    yield from (name.lower(), name.upper(), name.title())
    for at in range(len(name) + 1):
        before, after = name[:at], name[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for letter in _LETTERS:
            yield before + letter + after
            yield before + letter + after[1:]
