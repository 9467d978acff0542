"""The certificate of a service, reloaded when its files change."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from fedbandits.common.log_limit import limited_logger

_log = limited_logger("fedbandits.live.service")


class ServiceCertificate:
    """A certificate with its key, in files that may be replaced.

    Args:
        chain: file of the certificate and of its intermediate authorities, in PEM.
        key: file of the private key, in PEM.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self.chain = chain
        self.key = key
        self.context = self._load()
        self._loaded_at = self._modified_at()
        self._logged_at: tuple[int, int] | None = None

    def reload(self) -> None:
        """Use new files for new connections, if the files changed."""
        modified_at = self._modified_at()
        try:
            if modified_at == self._loaded_at:
                return
            self._load()  # fails before the context in use changes
            self.context.load_cert_chain(self.chain, self.key)
        except OSError as error:  # SSLError is one
            # The operator may still be copying files: try again, and log each state once.
            if modified_at != self._logged_at:
                _log.warning("%s is not used yet: %s", self.chain, error)
            self._logged_at = modified_at
            return
        self._loaded_at = modified_at
        _log.info("%s was renewed", self.chain)

    def hosts(self) -> set[str]:
        """Return the host names and IP addresses that the certificate is valid for."""
        return hosts_of_certificate(self.chain.read_bytes())

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.chain, self.key)
        context.num_tickets = 0  # a resumed session would not verify a renewed certificate
        return context

    def _modified_at(self) -> tuple[int, int]:
        """Return the modification times of both files; zeros if one is missing."""
        try:
            return self.chain.stat().st_mtime_ns, self.key.stat().st_mtime_ns
        except OSError:
            return 0, 0


def hosts_of_certificate(certificate: bytes) -> set[str]:
    """Return the host names and IP addresses in a certificate in PEM."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate)
    try:
        names: Any = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError(
            f"the certificate of {found.subject.rfc4514_string()} names no host (it has no subject "
            "alternative names), so clients would reject it; `fedbandits live keys` makes one"
        ) from None
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    return addresses | set(names.get_values_for_type(x509.DNSName))
