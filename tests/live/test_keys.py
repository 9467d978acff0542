"""Keys and certificates: who gets what, what they say, and what is refused."""

from __future__ import annotations

import base64
import os
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

import fedbandits as fb
from fedbandits.live.federation import certificates, keys
from fedbandits.live.federation.certificates import KeysError

SHOPS = fb.live.Federation(
    ["tea", "coffee"], fb.networks.path(3), members=["north", "centre", "south"]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of the three shops."""
    made = tmp_path / "keys"
    keys.write_keys(SHOPS, made, {"south": ["south.example.org", "192.0.2.7"]})
    return made


def test_each_member_gets_its_own_and_nothing_of_the_others(folder: Path) -> None:
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    members = [
        f"{name}/{file}.pem"
        for name in ("centre", "north", "south")
        for file in ("ca", "cert", "key")
    ]
    assert found == ["ca.key", "ca.pem", *members]
    assert len({path.read_bytes() for path in folder.rglob("key.pem")}) == 3
    assert {path.read_bytes() for path in folder.glob("*/ca.pem")} == {
        (folder / "ca.pem").read_bytes()
    }


def test_only_the_owner_reads_keys(folder: Path) -> None:
    secret = [folder / "ca.key", *folder.glob("*/key.pem")]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
    assert {path.stat().st_mode & 0o077 for path in folder.glob("*/")} == {0}


def test_a_certificate_names_its_member_and_its_hosts(folder: Path) -> None:
    certificate = certificates.read_certificate(folder / "south" / "cert.pem")
    assert certificates.holder_of(certificate) == "south"
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert [str(each.value) for each in alternatives.value] == [
        "south",
        "south.example.org",
        "192.0.2.7",
    ]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {each._name for each in usage} == {"serverAuth", "clientAuth"}
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_no_public_authority_certifies_the_name_of_a_member() -> None:
    # They certify names of hosts and addresses, and an @ is in neither.
    assert not certificates._HOST.fullmatch(certificates.common_name("south.example.org"))


def test_a_name_that_is_no_host_is_certified_all_the_same(tmp_path: Path) -> None:
    authority = certificates.make_authority()
    pair = certificates.make_member(authority, "a..b-", ["127.0.0.1"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificates.hosts_of(certificate) == ["127.0.0.1"]


def test_they_are_good_for_tls(folder: Path) -> None:
    """Python's own TLS, both ends, TLS 1.3, each checking the other."""
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


def test_expiry(folder: Path) -> None:
    left = certificates.read_certificate(
        folder / "north" / "cert.pem"
    ).not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=364) < left < timedelta(days=366)


def test_renewal_keeps_the_key_the_hosts_and_the_authority(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    keys.renew(folder, "south", days=700)
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert changed == [folder / "south" / "cert.pem"]
    keys.check_member(folder / "south", "south")
    new = certificates.read_certificate(changed[0])
    assert certificates.hosts_of(new) == ["south", "south.example.org", "192.0.2.7"]
    assert new.not_valid_after_utc - datetime.now(UTC) > timedelta(days=699)


def test_renewal_needs_no_private_key_of_the_member(folder: Path) -> None:
    (folder / "south" / "key.pem").unlink()
    keys.renew(folder, "south", hosts=["south.example.net"])
    new = certificates.read_certificate(folder / "south" / "cert.pem")
    assert certificates.hosts_of(new) == [
        "south",
        "south.example.org",
        "192.0.2.7",
        "south.example.net",
    ]


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
    ("host", "reason"),
    [
        ("south.example.org:7447", "without port"),
        ("", "no host"),
        ("two words", "no host"),
        ("-x", "no host"),
        ("https://south", "no host"),
    ],
)
def test_hosts_that_are_none_are_refused(tmp_path: Path, host: str, reason: str) -> None:
    with pytest.raises(KeysError, match=reason):
        keys.write_keys(SHOPS, tmp_path / "keys", {"south": [host]})
    assert not (tmp_path / "keys").exists()


def test_hosts_of_nobody_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match=r"suoth.*south"):
        keys.write_keys(SHOPS, tmp_path / "keys", {"suoth": ["192.0.2.7"]})


def test_names_and_times_that_cannot_be_certified() -> None:
    authority = certificates.make_authority()
    with pytest.raises(KeysError, match="1 to 63 letters"):
        certificates.make_member(authority, "x" * 64)
    certificates.make_member(authority, "x" * 63)
    with pytest.raises(KeysError, match="more than 0 days, not 0"):
        certificates.make_member(authority, "x", days=0)
    other = certificates.make_authority()
    with pytest.raises(KeysError, match=r"not the key of a certificate in ca\.pem"):
        certificates.make_member(certificates.CertifiedKey(authority.certificate, other.key), "x")


def test_a_stamp_changes_with_the_owner_and_the_rights(folder: Path) -> None:
    """A renewed certificate that its agent may not read yet is taken when it may."""
    before = keys.file_states(folder / "north")
    time.sleep(0.05)  # file systems count in milliseconds
    (folder / "north" / "cert.pem").chmod(0o640)
    assert keys.file_states(folder / "north") != before


class TestAFolderThatLetsNobodyIn:
    """What an agent says at its start, instead of a link that never comes up."""

    def test_missing(self, folder: Path) -> None:
        (folder / "north" / "key.pem").unlink()
        with pytest.raises(KeysError, match=r"key\.pem cannot be read.*live keys"):
            keys.check_member(folder / "north", "north")

    def test_of_another_member(self, folder: Path) -> None:
        with pytest.raises(KeysError, match=r"a certificate of 'south', not of 'north'"):
            keys.check_member(folder / "south", "north")

    def test_the_key_of_another(self, folder: Path) -> None:
        (folder / "south" / "key.pem").replace(folder / "north" / "key.pem")
        with pytest.raises(KeysError, match=r"not the key of cert\.pem"):
            keys.check_member(folder / "north", "north")

    def test_of_another_authority(self, folder: Path) -> None:
        (folder / "north" / "ca.pem").write_bytes(certificates.make_authority().certificate)
        with pytest.raises(KeysError, match=r"not signed by an authority in ca\.pem"):
            keys.check_member(folder / "north", "north")

    def test_expired(self, folder: Path) -> None:
        old = certificates.make_member(
            keys.read_authority(folder), "north", now=datetime.now(UTC) - timedelta(days=400)
        )
        (folder / "north" / "cert.pem").write_bytes(old.certificate)
        (folder / "north" / "key.pem").write_bytes(old.key)
        with pytest.raises(KeysError, match=r"expired on 20\d\d-\d\d-\d\d; renew it"):
            keys.check_member(folder / "north", "north")

    def test_not_yet_valid(self, folder: Path) -> None:
        """As after a clock that was reset, or a certificate that was made ahead of time."""
        later = datetime.now(UTC) + timedelta(days=2)
        early = certificates.make_member(keys.read_authority(folder), "north", now=later)
        (folder / "north" / "cert.pem").write_bytes(early.certificate)
        (folder / "north" / "key.pem").write_bytes(early.key)
        day = r"20\d\d-\d\d-\d\d \d\d:\d\d UTC"
        words = rf"cert\.pem is not valid before {day}, and the clock .* {day}: set the clock, or"
        with pytest.raises(KeysError, match=words):
            keys.check_member(folder / "north", "north")

    def test_of_an_authority_that_expired(self, folder: Path) -> None:
        past = datetime.now(UTC) - timedelta(days=4000)
        old = certificates.make_authority(now=past)
        member = certificates.make_member(old, "north")
        for file, content in (("ca.pem", old.certificate), ("cert.pem", member.certificate)):
            (folder / "north" / file).write_bytes(content)
        (folder / "north" / "key.pem").write_bytes(member.key)
        with pytest.raises(KeysError, match=r"ca\.pem expired on 20\d\d-\d\d-\d\d; make a new"):
            keys.check_member(folder / "north", "north")

    def test_of_a_kind_that_is_not_known(self, folder: Path) -> None:
        """A key on a curve of another number: no other error than ours, which agents survive."""
        file = folder / "north" / "key.pem"
        key = base64.b64decode("".join(file.read_text().splitlines()[1:-1]))
        p256 = bytes.fromhex("06082a8648ce3d030107")
        other = base64.b64encode(key.replace(p256, p256[:-1] + b"\x7f")).decode()
        file.write_text(f"-----BEGIN PRIVATE KEY-----\n{other}\n-----END PRIVATE KEY-----\n")
        with pytest.raises(KeysError, match=r"key\.pem .* of an unknown kind"):
            keys.check_member(folder / "north", "north")

    @pytest.mark.parametrize("file", ["ca.pem", "cert.pem", "key.pem"])
    def test_damaged(self, folder: Path, file: str) -> None:
        (folder / "north" / file).write_bytes(b"-----BEGIN NOTHING-----")
        with pytest.raises(KeysError, match=rf"{file} (is|holds) no (certificate|key) in PEM"):
            keys.check_member(folder / "north", "north")


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o666])
def test_a_key_that_every_user_may_read_is_refused(folder: Path, mode: int) -> None:
    key = folder / "north" / "key.pem"
    key.chmod(mode)
    with pytest.raises(KeysError, match=f"chmod 600 {key}"):
        keys.check_member(folder / "north", "north")


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_key_that_a_group_may_read_is_accepted(folder: Path, mode: int) -> None:
    """As secrets of Kubernetes and Docker are mounted."""
    (folder / "north" / "key.pem").chmod(mode)
    keys.check_member(folder / "north", "north")


@pytest.mark.skipif(os.name != "posix", reason="no modes")
def test_the_authoritys_key_that_every_user_may_read_is_refused(folder: Path) -> None:
    (folder / "ca.key").chmod(0o644)
    with pytest.raises(KeysError, match=f"chmod 600 {folder / 'ca.key'}"):
        keys.renew(folder, "north")
