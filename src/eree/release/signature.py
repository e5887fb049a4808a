"""Ed25519 signatures of releases, with an agency's key in a PEM file."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from eree.errors import Refusal, Unreadable

ALGORITHM = "Ed25519"


@dataclass(frozen=True, repr=False)
class Signer:
    """What signs a release; the key is never shown.

    Args:
        key: A private key; `Signer.read` takes the file of one.

    Examples:
        >>> eree.Signer.read("key.pem").sign("0" * 64)["algorithm"]
        'Ed25519'
    """

    key: Ed25519PrivateKey

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> Signer:
        """The private key of a PEM file without a password."""
        text = _read(file)
        try:
            key = load_pem_private_key(text, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise Refusal(
                f"{file} holds no Ed25519 private key in PEM without a password; make one with"
                " 'openssl genpkey -algorithm ed25519 -out key.pem'"
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise Refusal(f"{file} holds a key of another kind; releases are signed with Ed25519")
        return cls(key)

    def sign(self, digest: str) -> dict[str, str]:
        """The signature of a digest, with the public key that checks it."""
        public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return _written(public, self.key.sign(digest.encode()))


def public_key_of(file: str | os.PathLike[str]) -> str:
    """The raw public key, in hexadecimal digits, of a PEM file with a public or private key.

    Args:
        file: A PEM file.

    Examples:
        >>> len(eree.public_key_of("key.pem"))
        64
    """
    text = _read(file)
    try:
        key: Any
        if b"PRIVATE" in text:
            key = load_pem_private_key(text, password=None).public_key()
        else:
            key = load_pem_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Refusal(
            f"{file} holds no Ed25519 key in PEM without a password; name a file that does"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise Refusal(f"{file} holds a key of another kind; releases are signed with Ed25519")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def signature_holds(signature: Any, digest: str) -> bool:
    """Whether a signature is that of a digest, by the public key beside it.

    It must be written as `sign` writes it: other texts stand for the same key or the same value.
    """
    try:
        key = bytes.fromhex(signature["public_key"])
        value = base64.b64decode(signature["value"], validate=True)
        Ed25519PublicKey.from_public_bytes(key).verify(value, digest.encode())
    except (KeyError, TypeError, ValueError, InvalidSignature):
        return False
    return bool(signature == _written(key, value))


def _written(key: bytes, value: bytes) -> dict[str, str]:
    """A signature as it stands in a record."""
    return {
        "algorithm": ALGORITHM,
        "public_key": key.hex(),
        "value": base64.b64encode(value).decode(),
    }


def _read(file: str | os.PathLike[str]) -> bytes:
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise Unreadable(f"there is no key {file}; check the path") from None
    except OSError as error:
        raise Unreadable(f"the key {file} cannot be read: {error.strerror}") from None
