"""Folders of keys: one of the operator, and one for each member.

ca.pem, ca.key            the authority; its key stays with the operator
north/ca.pem              the files of the member "north"; it needs no others
north/cert.pem
north/key.pem
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedbandits.common.checks import did_you_mean
from fedbandits.common.files import atomic_write, others_have_access

from .certificates import (
    LOOPBACK,
    MEMBER_DAYS,
    CertifiedKey,
    KeysError,
    certify,
    holder_of,
    hosts_of,
    make_authority,
    make_member,
    read_certificate,
    read_certificates,
    read_file,
    signer_of,
)


class HasMembers(Protocol):
    """A federation, or anything else with names of members."""

    @property
    def members(self) -> Sequence[str]:
        """Their names."""


def write_keys(
    federation: HasMembers,
    folder: str | Path,
    hosts: Mapping[str, Sequence[str]] | None = None,
    days: float = MEMBER_DAYS,
    *,
    overwrite: bool = False,
) -> None:
    """Make an authority, and for each member a folder with its key and certificate.

    Args:
        federation: its members get keys.
        folder: created if it does not exist, readable by its owner only.
        hosts: names and IP addresses of each member; loopback addresses by default.
        days: validity of the members' certificates.
        overwrite: whether to replace existing keys. All members then need the new ones.

    Raises:
        KeysError: if there are keys already, or a name or host cannot be certified.
    """
    place, hosts = Path(folder), hosts or {}
    for name in hosts:
        if name not in federation.members:
            raise KeysError(f"hosts of {name!r}{did_you_mean(name, federation.members)}: no member")
    files = [place / "ca.key", *(place / name / "key.pem" for name in federation.members)]
    existing = [file for file in files if file.exists()]
    if existing and not overwrite:
        raise KeysError(
            f"{existing[0]} exists already, and new keys would lock out members with its "
            "certificates; renew a member's certificate (--renew), or give another folder (--out)"
        )
    authority = make_authority()
    made = {
        name: make_member(authority, name, hosts.get(name, LOOPBACK), days)
        for name in federation.members
    }
    for name, member in made.items():
        _write_member(place / name, authority, member)
    _make_private_folder(place)
    _write(place / "ca.key", authority.key, private=True)
    _write(place / "ca.pem", authority.certificate)


def add_member(
    folder: str | Path,
    name: str,
    hosts: Iterable[str] = LOOPBACK,
    days: float = MEMBER_DAYS,
) -> None:
    """Make a key and certificate for one more member, signed by the existing authority."""
    place = Path(folder)
    if (place / name / "key.pem").exists():
        raise KeysError(f"{place / name / 'key.pem'} exists already; renew its certificate")
    authority = read_authority(place)
    _write_member(place / name, authority, make_member(authority, name, hosts, days))


def renew(
    folder: str | Path,
    name: str,
    hosts: Iterable[str] = (),
    days: float = MEMBER_DAYS,
) -> None:
    """Make a new certificate for the existing key of a member: only cert.pem changes.

    Args:
        folder: of the authority and the members; the private keys of members need not be there.
        name: of the member.
        hosts: names and IP addresses to add to those in the present certificate.
        days: validity of the certificate.
    """
    place = Path(folder)
    old = read_certificate(place / name / "cert.pem")
    public: Any = old.public_key()
    new = certify(read_authority(place), name, public, [*hosts_of(old), *hosts], days)
    _write(place / name / "cert.pem", new)


def read_authority(folder: str | Path) -> CertifiedKey:
    """Read the authority in a folder that `write_keys` has made."""
    return CertifiedKey(read_file(Path(folder) / "ca.pem"), _read_key(Path(folder) / "ca.key"))


def read_authorities(folder: Path) -> list[x509.Certificate]:
    """Read the authorities in the ca.pem of a member: several while one is being replaced."""
    return read_certificates(folder / "ca.pem")


def file_states(folder: Path) -> list[tuple[int, ...]]:
    """Return a state that changes when a member's files or their permissions do."""
    found: list[tuple[int, ...]] = []
    for name in ("ca.pem", "cert.pem", "key.pem"):
        with suppress(OSError):
            status = (folder / name).stat()
            # Permissions change the ctime alone. A file that became readable is read again.
            found.append((status.st_mtime_ns, status.st_ino, status.st_ctime_ns))
    return found


def check_member(folder: Path, name: str) -> None:
    """Reject a folder with which a member cannot connect to its neighbours.

    Args:
        folder: with ca.pem, cert.pem and key.pem.
        name: of the member.

    Raises:
        KeysError: if a file is missing, malformed, expired or of another member.
    """
    own = read_certificate(folder / "cert.pem")
    holder = holder_of(own)
    if holder != name:
        whose = "of no member" if holder is None else f"of {holder!r}"
        raise KeysError(f"{folder / 'cert.pem'} is a certificate {whose}, not of {name!r}")
    authority = signer_of(own, read_authorities(folder))
    if authority is None:
        raise KeysError(
            f"{folder / 'cert.pem'} is not signed by an authority in ca.pem of the same folder; "
            "copy the files that belong together"
        )
    _check_key(folder / "key.pem", own)
    _check_dates(folder / "cert.pem", own, "renew it")
    _check_dates(
        folder / "ca.pem", authority, "make a new authority, and give all members new keys"
    )


def _check_key(path: Path, certificate: x509.Certificate) -> None:
    content = _read_key(path)
    try:
        fits = load_pem_private_key(content, None).public_key() == certificate.public_key()
    except (UnsupportedAlgorithm, TypeError, ValueError) as error:
        raise KeysError(
            f"{path} is not a key in PEM without a password, or of an unknown kind: {error}"
        ) from error
    if not fits:
        raise KeysError(f"{path} is not the key of cert.pem in the same folder")


def _check_dates(path: Path, certificate: x509.Certificate, remedy: str) -> None:
    now = datetime.now(UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if begin > now:
        raise KeysError(
            f"{path} is not valid before {begin:%Y-%m-%d %H:%M} UTC, and the clock of this machine "
            f"says {now:%Y-%m-%d %H:%M} UTC: set the clock, or {remedy}"
        )
    if end < now:
        raise KeysError(f"{path} expired on {end:%Y-%m-%d}; {remedy}")


def _write_member(folder: Path, authority: CertifiedKey, member: CertifiedKey) -> None:
    _make_private_folder(folder)
    _write(folder / "ca.pem", authority.certificate)
    _write(folder / "key.pem", member.key, private=True)
    _write(folder / "cert.pem", member.certificate)


def _make_private_folder(path: Path) -> None:
    for folder in (path.parent, path):  # the parent holds the keys of all members
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    with atomic_write(path, private=private) as file:
        file.write(content)


def _read_key(path: Path) -> bytes:
    """Read a private key, unless every user of the machine has access to it."""
    content = read_file(path)
    if others_have_access(path):
        raise KeysError(f"every user of this machine has access to {path}: chmod 600 {path}")
    return content
