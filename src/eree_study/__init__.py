"""eree_study: what shows that eree works; nothing in eree imports it.

Synthetic populations, the method before and the attacks on it, the papers' experiments, the demo.
The public names stand in `__init__.pyi`; each is imported when it is first used, as in `eree`.
"""

from eree import homes_of, public


def __getattr__(name: str) -> object:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'eree_study' has no attribute {name!r}")
    value = globals()[name] = public(__name__, name)
    return value


def __dir__() -> list[str]:
    return [*homes_of(__name__)]
