"""Who is who on the network: a private authority, and a key and certificate for each member.

    ca.pem, ca.key            the authority; the key stays with the operator
    north/ca.pem              what the member "north" gets, and nothing of the others
    north/cert.pem
    north/key.pem

ECDSA P-256. A certificate serves both ends of a link. There is no revocation: a member whose key
was stolen is taken out of the federation, or the authority is made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fedbandits.common.checks import did_you_mean
from fedbandits.common.files import atomic_write, others_have_access

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS = 3650
MEMBER_DAYS = 365
"""How long certificates are valid, unless another time is asked for."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Where a member is reached that has no hosts."""

SLACK = timedelta(hours=1)
"""Certificates are valid from so long ago: clocks of members differ."""

MARK = "@"
"""Stands before a member's name in its certificate. No public authority certifies a name with it,
so that no other certificate is taken for a member's."""

LONGEST = 64 - len(MARK)
"""Letters of a name that a certificate can hold (RFC 5280, ub-common-name)."""

_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")


class KeysError(ValueError):
    """Keys or certificates that are missing, in the way, or not what they should be."""


class Pair(NamedTuple):
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Members(Protocol):
    """What keys are made for; a `Federation` is one."""

    @property
    def members(self) -> Sequence[str]:
        """Their names."""


def common_name(member: str) -> str:
    """What the certificate of a member calls it.

    Example:
        >>> common_name("north")
        '@north'
    """
    return MARK + member


def member_named(common_name: str | None) -> str | None:
    """The member that a certificate names; None if it names none.

    Example:
        >>> member_named("@north"), member_named("north"), member_named(None)
        ('north', None, None)
    """
    if common_name is None or not common_name.startswith(MARK):
        return None
    return common_name.removeprefix(MARK)


def holder_of(certificate: x509.Certificate) -> str | None:
    """Return the member that a certificate names; None if it names none."""
    from cryptography import x509

    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return member_named(str(names[0].value)) if names else None


def make_authority(days: float = AUTHORITY_DAYS, *, now: datetime | None = None) -> Pair:
    """A new authority. Whoever holds its key decides who is a member."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("fedbandits authority")
    builder = (
        _beginning(name, name, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return Pair(_signed(builder, key), _private(key))


def make_member(
    authority: Pair,
    name: str,
    hosts: Iterable[str] = LOOPBACK,
    days: float = MEMBER_DAYS,
    *,
    now: datetime | None = None,
) -> Pair:
    """A new key, and a certificate that says whose it is.

    Args:
        authority: signs it.
        name: of the member.
        hosts: names and addresses under which its neighbours reach it.
        days: how long it is valid.
        now: from when on; the present by default.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(_certify(authority, name, key.public_key(), hosts, days, now), _private(key))


def write_keys(
    federation: Members,
    folder: str | Path,
    hosts: Mapping[str, Sequence[str]] | None = None,
    days: float = MEMBER_DAYS,
    *,
    overwrite: bool = False,
) -> None:
    """Make an authority, and for each member a folder with what it needs.

    Args:
        federation: its members get keys.
        folder: is made; private.
        hosts: where each member is reached; the loopback addresses for those that are not named.
        days: how long the members' certificates are valid.
        overwrite: whether keys that are there may go. The whole federation then needs the new ones.

    Raises:
        KeysError: if there are keys already, or a name or host cannot be certified.
    """
    place, hosts = Path(folder), hosts or {}
    for name in hosts:
        if name not in federation.members:
            raise KeysError(f"hosts of {name!r}{did_you_mean(name, federation.members)}: no member")
    files = [place / "ca.key", *(place / name / "key.pem" for name in federation.members)]
    there = [file for file in files if file.exists()]
    if there and not overwrite:
        raise KeysError(
            f"{there[0]} is there already, and whoever has a certificate of it would be shut out; "
            "renew a member's certificate (--renew), or give another folder (--out)"
        )
    authority = make_authority()
    made = {
        name: make_member(authority, name, hosts.get(name, LOOPBACK), days)
        for name in federation.members
    }
    for name, pair in made.items():
        _private_folder(place / name)
        _write(place / name / "ca.pem", authority.certificate)
        _write(place / name / "key.pem", pair.key, private=True)
        _write(place / name / "cert.pem", pair.certificate)
    _private_folder(place)
    _write(place / "ca.key", authority.key, private=True)
    _write(place / "ca.pem", authority.certificate)


def add_member(
    folder: str | Path,
    name: str,
    hosts: Iterable[str] = LOOPBACK,
    days: float = MEMBER_DAYS,
) -> None:
    """A key and certificate for one more member, by the authority that is there."""
    place = Path(folder)
    if (place / name / "key.pem").exists():
        raise KeysError(f"{place / name / 'key.pem'} is there already; renew its certificate")
    authority = read_authority(place)
    pair = make_member(authority, name, hosts, days)
    _private_folder(place / name)
    _write(place / name / "ca.pem", authority.certificate)
    _write(place / name / "key.pem", pair.key, private=True)
    _write(place / name / "cert.pem", pair.certificate)


def renew(
    folder: str | Path,
    name: str,
    hosts: Iterable[str] = (),
    days: float = MEMBER_DAYS,
) -> None:
    """Make a new certificate for a member with the key that it has: only cert.pem changes.

    Args:
        folder: with the authority and the members' folders; their keys need not be there.
        name: of the member.
        hosts: names and addresses to add to the present certificate's.
        days: how long it is valid.
    """
    place = Path(folder)
    old = read_certificate(place / name / "cert.pem")
    public: Any = old.public_key()
    hosts = [*_hosts_of(old), *hosts]
    _write(
        place / name / "cert.pem", _certify(read_authority(place), name, public, hosts, days, None)
    )


def read_authority(folder: str | Path) -> Pair:
    """The authority of a folder that `write_keys` has made."""
    return Pair(_read(Path(folder) / "ca.pem"), _read_key(Path(folder) / "ca.key"))


def read_certificate(path: str | Path) -> x509.Certificate:
    """A certificate from a file."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_read(Path(path)))
    except ValueError as error:
        if isinstance(error, KeysError):
            raise
        raise KeysError(f"{path} is no certificate in PEM: {error}") from None


def decoded(certificate: bytes) -> x509.Certificate:
    """Return a certificate from its DER bytes."""
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate)


def read_authorities(folder: str | Path) -> list[x509.Certificate]:
    """Return the authorities in the ca.pem of a member: several while one is being replaced."""
    from cryptography import x509

    path = Path(folder) / "ca.pem"
    try:
        return x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        if isinstance(error, KeysError):
            raise
        raise KeysError(f"{path} holds no certificate in PEM: {error}") from None


def signer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """Return the authority that signed a certificate, or None.

    Of several with the same key, return the one that is valid longest.
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    found = []
    for authority in authorities:
        with suppress(InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
            certificate.verify_directly_issued_by(authority)
            found.append(authority)
    return max(found, key=lambda each: each.not_valid_after_utc, default=None)


def trusted_until(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> float | None:
    """Return the earlier expiry of a certificate and of its authority, in seconds since 1970.

    None if no authority has signed it.
    """
    signer = signer_of(certificate, authorities)
    if signer is None:
        return None
    return min(certificate.not_valid_after_utc, signer.not_valid_after_utc).timestamp()


def stamp(folder: str | Path) -> list[tuple[int, ...]]:
    """What changes when a member's files do, or who may read them."""
    found: list[tuple[int, ...]] = []
    for name in ("ca.pem", "cert.pem", "key.pem"):
        with suppress(OSError):
            status = (Path(folder) / name).stat()
            # The last alone changes with the owner: a file that could not be read is tried again.
            found.append((status.st_mtime_ns, status.st_ino, status.st_ctime_ns))
    return found


def check_member(folder: str | Path, name: str) -> None:
    """Refuse a folder that does not let a member in: files missing, another's, or out of date.

    Args:
        folder: with ca.pem, cert.pem and key.pem.
        name: of the member.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    place = Path(folder)
    own = read_certificate(place / "cert.pem")
    holder = holder_of(own)
    if holder != name:
        whose = "nobody's" if holder is None else f"{holder!r}'s"
        raise KeysError(f"{place / 'cert.pem'} is {whose} certificate, not {name!r}'s")
    authority = signer_of(own, read_authorities(place))
    if authority is None:
        raise KeysError(
            f"{place / 'cert.pem'} is not signed by an authority in ca.pem of the same folder; "
            "copy the files that belong together"
        )
    try:
        key = load_pem_private_key(_read_key(place / "key.pem"), None)
        fits = key.public_key() == own.public_key()
    except (UnsupportedAlgorithm, TypeError, ValueError) as error:
        if isinstance(error, KeysError):
            raise
        raise KeysError(
            f"{place / 'key.pem'} is no key in PEM without a password, or of a kind that is not "
            f"known here: {error}"
        ) from error
    if not fits:
        raise KeysError(f"{place / 'key.pem'} is not the key of cert.pem beside it")
    now = datetime.now(UTC)
    remedies = ("renew it", "make a new authority, and give all members new keys")
    for found, file, remedy in zip((own, authority), ("cert.pem", "ca.pem"), remedies, strict=True):
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        if begin > now:
            raise KeysError(
                f"{place / file} is not valid before {begin:%Y-%m-%d %H:%M} UTC, and the clock of "
                f"this machine says {now:%Y-%m-%d %H:%M} UTC: set the clock, or {remedy}"
            )
        if end < now:
            raise KeysError(f"{place / file} expired on {end:%Y-%m-%d}; {remedy}")


def _certify(
    authority: Pair,
    name: str,
    public: ec.EllipticCurvePublicKey,
    hosts: Iterable[str],
    days: float,
    now: datetime | None,
) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

    if not 0 < len(name) <= LONGEST:
        raise KeysError(f"{name!r}: a certificate holds names of 1 to {LONGEST} letters")
    signer: Any = load_pem_private_key(authority.key, None)
    authorities = x509.load_pem_x509_certificates(authority.certificate)
    issuers = [each for each in authorities if each.public_key() == signer.public_key()]
    if not issuers:
        raise KeysError(
            "ca.key is not the key of a certificate in ca.pem: copy both files from one folder"
        )
    # A name that no host can have is left out: TLS would refuse the whole certificate.
    named = [name] if _HOST.fullmatch(name) else []
    alternatives = [_general_name(host) for host in dict.fromkeys([*named, *hosts])]
    builder = (
        _beginning(_subject(common_name(name)), issuers[0].subject, public, days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([Purpose.SERVER_AUTH, Purpose.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return _signed(builder, signer)


def _beginning(
    subject: x509.Name, issuer: x509.Name, public: Any, days: float, now: datetime | None
) -> x509.CertificateBuilder:
    from cryptography import x509

    if not days > 0:
        raise KeysError(f"a certificate is valid for some days, not {days}")
    start = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - SLACK)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _subject(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    """An authority signs certificates; a member signs handshakes."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    if not _HOST.fullmatch(host):
        raise KeysError(
            f"{host!r} is no host: an address or a name such as site3.example.org is, without port"
        )
    return x509.DNSName(host)


def _hosts_of(certificate: x509.Certificate) -> list[str]:
    from cryptography import x509

    with suppress(x509.ExtensionNotFound):
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return [str(each.value) for each in found.value]
    return []


def _private_folder(path: Path) -> None:
    for folder in (path.parent, path):  # the first made holds the others
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    with atomic_write(path, private=private) as file:
        file.write(content)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeysError(
            f"{path} cannot be read ({error.strerror}); `fedbandits live keys` makes it"
        ) from None


def _read_key(path: Path) -> bytes:
    """Read a private key, unless every user of the machine has access to it."""
    content = _read(path)
    if others_have_access(path):
        raise KeysError(f"every user of this machine has access to {path}: chmod 600 {path}")
    return content
