"""eree: employment tables from linked employer-employee data, under a provable privacy guarantee.

The public names stand in `__init__.pyi`.  Each is imported when it is first used, so that
`import eree` and the command line start at once.
"""

__version__ = "0.1.0"


def homes_of(package: str) -> dict[str, str]:
    """The public names of a package, each with the module that it is imported from."""
    from importlib.resources import files

    lines = files(package).joinpath("__init__.pyi").read_text("utf-8").splitlines()
    words = (line.split() for line in lines if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in words}


def public(package: str, name: str) -> object:
    """What a package offers under a name."""
    from importlib import import_module

    homes = homes_of(package)
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        from eree.errors import hint

        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint(name, homes)}")
    return getattr(import_module(homes[name]), name)


def __getattr__(name: str) -> object:
    if name.startswith("__") and name != "__all__":  # Python itself asks for some
        raise AttributeError(f"module 'eree' has no attribute {name!r}")
    value = globals()[name] = public(__name__, name)
    return value


def __dir__() -> list[str]:
    return [*homes_of(__name__), "__version__"]
