# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A CA and the certificates of a fabric's hosts, made as vrdmad.conf(5) says."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@dataclass(frozen=True)
class Credentials:
    """Paths of a host's certificate, key and CA."""

    certificate: Path
    key: Path
    ca: Path


class Authority:
    """A CA whose files are in an existing folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = folder / "ca.key"
        self.certificate = folder / "ca.crt"
        openssl("req", "-x509", *CURVE, "-subj", "/CN=vrdma", "-days", "30", "-keyout", f"{self._key}", "-out",
                f"{self.certificate}")  # fmt: skip

    def issue(self, host: str) -> Credentials:
        """Makes the certificate and key of a host of that name."""
        certificate, key, request = (self._folder / f"{host}.{kind}" for kind in ("crt", "key", "csr"))
        openssl("req", *CURVE, "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}", "-keyout", f"{key}",
                "-out",
                f"{request}")  # fmt: skip
        openssl("x509", "-req", "-in", f"{request}", "-copy_extensions", "copy", "-CA", f"{self.certificate}", "-CAkey",
                f"{self._key}", "-days", "30", "-out", f"{certificate}")  # fmt: skip
        return Credentials(certificate, key, self.certificate)
