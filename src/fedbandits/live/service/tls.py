"""The certificate of a service, and its renewal while it runs."""

from __future__ import annotations

import ssl
from pathlib import Path

from fedbandits.common.log_limit import limited_logger

_log = limited_logger("fedbandits.live.service")


class Certificate:
    """A certificate with its key, in files that may be replaced.

    Args:
        chain: the certificate and those between it and the authority, in PEM.
        key: in PEM.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self.chain = chain
        self.key = key
        self.context = self._loaded()
        self._changed = self._times()
        self._complained: tuple[int, int] | None = None

    def renew(self) -> None:
        """Take new files if there are any; new connections get them."""
        times = self._times()
        try:
            if times == self._changed:
                return
            self._loaded()  # the pair must fit before the running context is touched
            self.context.load_cert_chain(self.chain, self.key)
        except OSError as error:  # SSLError is one
            # Perhaps one of the two is not there yet: it is tried again, and told once.
            if times != self._complained:
                _log.warning("%s is not taken yet: %s", self.chain, error)
            self._complained = times
            return
        self._changed = times
        _log.info("%s was renewed", self.chain)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.chain, self.key)
        context.num_tickets = 0  # a resumed session would not verify a renewed certificate
        return context

    def _times(self) -> tuple[int, int]:
        """When the files changed; zeros while one is not there."""
        try:
            return self.chain.stat().st_mtime_ns, self.key.stat().st_mtime_ns
        except OSError:
            return 0, 0
