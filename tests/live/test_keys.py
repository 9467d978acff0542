"""Keys and certificates: who gets which files, and which files are rejected."""

from __future__ import annotations

import base64
import os
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

import fedbandits as fb
from fedbandits.live.federation import certificates, keys
from fedbandits.live.federation.certificates import CertifiedKey, KeysError

SHOPS = fb.live.Federation(
    ["tea", "coffee"], fb.networks.path(3), members=["north", "centre", "south"]
)
SOUTH = ["south", "south.example.org", "192.0.2.7"]

posix = pytest.mark.skipif(os.name != "posix", reason="no modes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of the three shops."""
    made = tmp_path / "keys"
    keys.write_keys(SHOPS, made, {"south": SOUTH[1:]})
    return made


def certificate_of(folder: Path, name: str) -> x509.Certificate:
    return certificates.read_certificate(folder / name / "cert.pem")


def test_each_member_gets_its_own_files_readable_by_their_owner(folder: Path) -> None:
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    members = [
        f"{name}/{file}.pem"
        for name in ("centre", "north", "south")
        for file in ("ca", "cert", "key")
    ]
    assert found == ["ca.key", "ca.pem", *members]
    assert len({path.read_bytes() for path in folder.rglob("key.pem")}) == 3
    authority = (folder / "ca.pem").read_bytes()
    assert {path.read_bytes() for path in folder.glob("*/ca.pem")} == {authority}
    secret = [folder / "ca.key", *folder.glob("*/key.pem")]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
    assert {path.stat().st_mode & 0o077 for path in folder.glob("*/")} == {0}


def test_a_certificate_names_its_member_and_its_hosts(folder: Path) -> None:
    certificate = certificate_of(folder, "south")
    assert certificates.holder_of(certificate) == "south"
    assert certificates.hosts_of(certificate) == SOUTH
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {each._name for each in usage} == {"serverAuth", "clientAuth"}
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=364) < left < timedelta(days=366)
    # Public authorities certify hosts only, and hosts contain no @.
    assert not certificates._HOST.fullmatch(certificates.common_name("south.example.org"))


def test_names_that_are_not_hosts_are_certified(folder: Path) -> None:
    pair = certificates.make_member(keys.read_authority(folder), "a..b-", ["127.0.0.1"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificates.hosts_of(certificate) == ["127.0.0.1"]


def test_certificates_of_strangers_name_no_member(folder: Path) -> None:
    authority = certificates.read_certificate(folder / "ca.pem")
    assert certificates.holder_of(authority) is None


def test_they_are_good_for_tls(folder: Path) -> None:
    """Both ends use Python's own TLS 1.3 and verify each other."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(folder / "south/cert.pem", folder / "south/key.pem")
    client = ssl.create_default_context(cafile=folder / "ca.pem")
    client.load_cert_chain(folder / "north/cert.pem", folder / "north/key.pem")
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    a, b, c, d = (ssl.MemoryBIO() for _ in range(4))
    south = server.wrap_bio(a, b, server_side=True)
    north = client.wrap_bio(c, d, server_hostname="south.example.org")
    for _ in range(3):
        for end, out, into in ((north, d, a), (south, b, c)):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            into.write(out.read())
    shown: list[Any] = [south.getpeercert(), north.getpeercert()]
    assert [each["subject"] for each in shown] == [
        ((("commonName", "@north"),),),
        ((("commonName", "@south"),),),
    ]


def test_renewal_changes_the_certificate_alone(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    keys.renew(folder, "south", days=700)
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert changed == [folder / "south" / "cert.pem"]
    keys.check_member(folder / "south", "south")
    new = certificate_of(folder, "south")
    assert certificates.hosts_of(new) == SOUTH
    assert new.not_valid_after_utc - datetime.now(UTC) > timedelta(days=699)
    (folder / "south" / "key.pem").unlink()  # which stays at the site
    keys.renew(folder, "south", hosts=["south.example.net"])
    assert certificates.hosts_of(certificate_of(folder, "south")) == [*SOUTH, "south.example.net"]


def test_a_member_is_added_by_the_same_authority(folder: Path) -> None:
    keys.add_member(folder, "west")
    keys.check_member(folder / "west", "west")
    with pytest.raises(KeysError, match=r"west.*exists already"):
        keys.add_member(folder, "west")


def test_keys_are_not_overwritten_unless_asked(folder: Path) -> None:
    before = (folder / "ca.key").read_bytes()
    with pytest.raises(KeysError, match=r"ca\.key exists already"):
        keys.write_keys(SHOPS, folder)
    (folder / "ca.key").unlink()
    with pytest.raises(KeysError, match=r"north.key\.pem exists already"):
        keys.write_keys(SHOPS, folder)
    keys.write_keys(SHOPS, folder, overwrite=True)
    assert (folder / "ca.key").read_bytes() != before
    keys.check_member(folder / "north", "north")


@pytest.mark.parametrize(
    ("name", "host", "reason"),
    [
        ("south", "south.example.org:7447", "without port"),
        ("south", "", "not a host"),
        ("south", "two words", "not a host"),
        ("south", "-x", "not a host"),
        ("south", "https://south", "not a host"),
        ("suoth", "192.0.2.7", "suoth.*south"),
    ],
)
def test_malformed_hosts_and_unknown_members_are_rejected(
    tmp_path: Path, name: str, host: str, reason: str
) -> None:
    with pytest.raises(KeysError, match=reason):
        keys.write_keys(SHOPS, tmp_path / "keys", {name: [host]})
    assert not (tmp_path / "keys").exists()


def test_names_and_times_that_cannot_be_certified() -> None:
    authority = certificates.make_authority()
    with pytest.raises(KeysError, match="1 to 63 letters"):
        certificates.make_member(authority, "x" * 64)
    certificates.make_member(authority, "x" * 63)
    with pytest.raises(KeysError, match="more than 0 days, not 0"):
        certificates.make_member(authority, "x", days=0)
    mixed = CertifiedKey(authority.certificate, certificates.make_authority().key)
    with pytest.raises(KeysError, match=r"not the key of a certificate in ca\.pem"):
        certificates.make_member(mixed, "x")


def test_the_state_of_files_changes_with_their_permissions(folder: Path) -> None:
    """So that a renewed certificate is used once its agent may read it."""
    before = keys.file_states(folder / "north")
    time.sleep(0.05)  # file systems count in milliseconds
    (folder / "north" / "cert.pem").chmod(0o640)
    assert keys.file_states(folder / "north") != before


def put(site: Path, member: CertifiedKey, authority: CertifiedKey | None = None) -> None:
    (site / "cert.pem").write_bytes(member.certificate)
    (site / "key.pem").write_bytes(member.key)
    if authority is not None:
        (site / "ca.pem").write_bytes(authority.certificate)


def dated(days: int) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        now = datetime.now(UTC) + timedelta(days=days)
        put(site, certificates.make_member(keys.read_authority(site.parent), "north", now=now))

    return change


def expired_authority(site: Path) -> None:
    old = certificates.make_authority(now=datetime.now(UTC) - timedelta(days=4000))
    put(site, certificates.make_member(old, "north"), old)


def unknown_curve(site: Path) -> None:
    key = base64.b64decode("".join((site / "key.pem").read_text().splitlines()[1:-1]))
    p256 = bytes.fromhex("06082a8648ce3d030107")
    other = base64.b64encode(key.replace(p256, p256[:-1] + b"\x7f")).decode()
    (site / "key.pem").write_text(
        f"-----BEGIN PRIVATE KEY-----\n{other}\n-----END PRIVATE KEY-----\n"
    )


def damaged(file: str) -> Callable[[Path], object]:
    return lambda site: (site / file).write_bytes(b"-----BEGIN NOTHING-----")


DAY = r"20\d\d-\d\d-\d\d"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda site: (site / "key.pem").unlink(), r"key\.pem cannot be read.*live keys"),
        (
            lambda site: (site.parent / "south/cert.pem").replace(site / "cert.pem"),
            "a certificate of 'south', not of 'north'",
        ),
        (
            lambda site: (site.parent / "ca.pem").replace(site / "cert.pem"),
            "a certificate of no member, not of 'north'",
        ),
        (
            lambda site: (site.parent / "south/key.pem").replace(site / "key.pem"),
            r"not the key of cert\.pem",
        ),
        (
            lambda site: (site / "ca.pem").write_bytes(certificates.make_authority().certificate),
            r"not signed by an authority in ca\.pem",
        ),
        (dated(-400), rf"cert\.pem expired on {DAY}; renew it"),
        (
            dated(2),
            rf"cert\.pem is not valid before {DAY} \d\d:\d\d UTC, and the clock .* {DAY} \d\d:\d\d "
            "UTC: set the clock, or",
        ),
        (expired_authority, rf"ca\.pem expired on {DAY}; make a new"),
        (unknown_curve, r"key\.pem .* of an unknown kind"),
        (damaged("ca.pem"), r"ca\.pem holds no certificate in PEM"),
        (damaged("cert.pem"), r"cert\.pem is not a certificate in PEM"),
        (damaged("key.pem"), r"key\.pem is not a key in PEM"),
    ],
)
def test_a_folder_with_which_no_link_would_work_is_rejected(
    folder: Path, change: Callable[[Path], object], why: str
) -> None:
    change(folder / "north")
    with pytest.raises(KeysError, match=why):
        keys.check_member(folder / "north", "north")


@posix
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o666])
def test_keys_that_every_user_may_read_are_rejected(folder: Path, mode: int) -> None:
    key = folder / "north" / "key.pem"
    key.chmod(mode)
    with pytest.raises(KeysError, match=f"chmod 600 {key}"):
        keys.check_member(folder / "north", "north")
    (folder / "ca.key").chmod(mode)
    with pytest.raises(KeysError, match=f"chmod 600 {folder / 'ca.key'}"):
        keys.renew(folder, "north")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_keys_that_a_group_may_read_are_accepted(folder: Path, mode: int) -> None:
    """Kubernetes and Docker mount secrets with such modes."""
    (folder / "north" / "key.pem").chmod(mode)
    keys.check_member(folder / "north", "north")
