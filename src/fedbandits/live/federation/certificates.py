"""Certificates of a private authority and of members: ECDSA P-256, valid at both ends of a link.

There is no revocation: a member whose key was stolen leaves the federation, or the authority is
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

AUTHORITY_DAYS = 3650
MEMBER_DAYS = 365
"""Default validity of certificates."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Default hosts of a member."""

SLACK = timedelta(hours=1)
"""Certificates are valid from this long ago, because clocks of members differ."""

MARK = "@"
"""Prefix of a member's name in its certificate.

Public authorities certify no name with it, so certificates of hosts never name a member.
"""

LONGEST = 64 - len(MARK)
"""The longest name that a certificate can hold (RFC 5280, ub-common-name)."""

_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")


class KeysError(ValueError):
    """Keys or certificates that are missing, malformed or of another member, or already exist."""


class CertifiedKey(NamedTuple):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


def common_name(member: str) -> str:
    """Return the name of a member in its certificate.

    Example:
        >>> common_name("north")
        '@north'
    """
    return MARK + member


def holder_of(certificate: x509.Certificate) -> str | None:
    """Return the member that a certificate names; None if it names no member."""
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    if not names or not str(names[0].value).startswith(MARK):
        return None
    return str(names[0].value).removeprefix(MARK)


def make_authority(days: float = AUTHORITY_DAYS, *, now: datetime | None = None) -> CertifiedKey:
    """Return a new authority. The owner of its key decides who is a member."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("fedbandits authority")
    builder = (
        _builder(name, name, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
    )
    return CertifiedKey(_signed(builder, key), _private_bytes(key))


def make_member(
    authority: CertifiedKey,
    name: str,
    hosts: Iterable[str] = LOOPBACK,
    days: float = MEMBER_DAYS,
    *,
    now: datetime | None = None,
) -> CertifiedKey:
    """Return a new key of a member, with a certificate.

    Args:
        authority: signs the certificate.
        name: of the member.
        hosts: names and IP addresses under which its neighbours reach it.
        days: validity of the certificate.
        now: the start of its validity; the present by default.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = certify(authority, name, key.public_key(), hosts, days, now)
    return CertifiedKey(certificate, _private_bytes(key))


def certify(
    authority: CertifiedKey,
    name: str,
    public: ec.EllipticCurvePublicKey,
    hosts: Iterable[str],
    days: float,
    now: datetime | None = None,
) -> bytes:
    """Return a certificate for the public key of a member."""
    if not 0 < len(name) <= LONGEST:
        raise KeysError(f"{name!r}: a certificate holds names of 1 to {LONGEST} letters")
    signer: Any = load_pem_private_key(authority.key, None)
    authorities = x509.load_pem_x509_certificates(authority.certificate)
    issuers = [each for each in authorities if each.public_key() == signer.public_key()]
    if not issuers:
        raise KeysError(
            "ca.key is not the key of a certificate in ca.pem: copy both files from one folder"
        )
    # TLS would reject a certificate with a malformed host, and not all member names are hosts.
    named = [name] if _HOST.fullmatch(name) else []
    alternatives = [_general_name(host) for host in dict.fromkeys([*named, *hosts])]
    key_of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    purposes = x509.ExtendedKeyUsage([Purpose.SERVER_AUTH, Purpose.CLIENT_AUTH])
    builder = (
        _builder(_name(common_name(name)), issuers[0].subject, public, days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(purposes, critical=False)
        .add_extension(key_of_issuer, critical=False)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return _signed(builder, signer)


def decode_certificate(certificate: bytes) -> x509.Certificate:
    """Return a certificate from its DER bytes."""
    return x509.load_der_x509_certificate(certificate)


def read_certificate(path: Path) -> x509.Certificate:
    """Read one certificate from a PEM file."""
    content = read_file(path)
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise KeysError(f"{path} is not a certificate in PEM: {error}") from None


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read all certificates in a PEM file."""
    content = read_file(path)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise KeysError(f"{path} holds no certificate in PEM: {error}") from None


def read_file(path: Path) -> bytes:
    """Return the content of a file of keys or certificates."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeysError(
            f"{path} cannot be read ({error.strerror}); `fedbandits live keys` makes it"
        ) from None


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the host names and IP addresses in a certificate."""
    with suppress(x509.ExtensionNotFound):
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return [str(each.value) for each in found.value]
    return []


def signer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """Return the authority that signed a certificate, or None.

    Of several authorities with the same key, return the one that is valid longest.
    """
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


def _builder(
    subject: x509.Name, issuer: x509.Name, public: Any, days: float, now: datetime | None
) -> x509.CertificateBuilder:
    if not days > 0:
        raise KeysError(f"a certificate must be valid for more than 0 days, not {days}")
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
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    """Return what a key may sign: certificates with an authority's, handshakes with a member's."""
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    if not _HOST.fullmatch(host):
        raise KeysError(
            f"{host!r} is not a host: write an IP address or a name such as site3.example.org, "
            "without port"
        )
    return x509.DNSName(host)
