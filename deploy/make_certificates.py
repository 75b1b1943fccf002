"""Make the TLS files of a Dask cluster: a certificate authority and one certificate that all parties present.

    python make_certificates.py certs --host scheduler.example.org

writes `ca.pem`, `ca-key.pem`, `cert.pem` and `key.pem` into the folder `certs`. Files that are still good are kept, so
the command can be repeated at every start. Dask lets in whoever presents a certificate signed by the authority, and
whoever is let in can run code on the workers: `key.pem` is a password, and `ca-key.pem`, which can make more of them,
is not needed by any running process (keep it elsewhere, or never write it with --discard-authority-key).
"""

from __future__ import annotations

import argparse
import base64
import ipaddress
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey

_CLOCK_SKEW = timedelta(hours=1)  # machines of a cluster do not agree on the time to the second
_RENEW_BEFORE = timedelta(days=7)  # a certificate must outlive the run that starts with it
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _san(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def make_authority(days: int) -> tuple[x509.Certificate, Key]:
    """A new certificate authority that may sign certificates of parties but no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("dtree cluster authority")
    certificate = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def make_certificate(
    authority: x509.Certificate, authority_key: Key, hosts: Sequence[str], days: int
) -> tuple[x509.Certificate, Key]:
    """A certificate for both ends of a connection: in Dask every party listens and connects."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [_san(host) for host in dict.fromkeys((*hosts, *_LOCAL_HOSTS))]
    certificate = (
        _builder(_name("dtree cluster"), authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return certificate, key


def _write(path: Path, content: bytes, private: bool) -> None:
    """Into place in one step, so that a starting process never reads half a file; keys only for their owner."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(beside, path)


def _certificate_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_bytes(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_key(path: Path) -> Key:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} does not hold an elliptic-curve key: use a folder made by this program")
    return key


def _lasts(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.now(UTC) > _RENEW_BEFORE


def _covers(certificate: x509.Certificate, hosts: Sequence[str]) -> bool:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return all(_san(host) in names for host in hosts)


def make_files(
    folder: Path,
    hosts: Sequence[str] = (),
    days: int = 365,
    renew: bool = False,
    new_authority: bool = False,
    discard_authority_key: bool = False,
) -> str:
    """Bring the folder's TLS files up to date; returns one sentence that says what was done."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / ".gitignore").write_text("*\n")  # keys are never to be committed
    ca, ca_key, cert, key = (folder / name for name in ("ca.pem", "ca-key.pem", "cert.pem", "key.pem"))
    authority = None if new_authority or not ca.exists() else x509.load_pem_x509_certificate(ca.read_bytes())
    if authority is not None and not _lasts(authority):
        authority = None
    if authority is not None and not renew and cert.exists() and key.exists():
        present = x509.load_pem_x509_certificate(cert.read_bytes())
        if _lasts(present) and _covers(present, hosts):
            return f"kept: {cert} is valid until {present.not_valid_after_utc:%Y-%m-%d}"
    if authority is not None and ca_key.exists():
        authority_key, done = _read_key(ca_key), "renewed, same authority"
    else:
        # Ten certificates long, so that renewing does not mean changing what everyone trusts.
        authority, authority_key = make_authority(10 * days)
        done = "made with a new authority, restart every party that trusted the old one" if ca.exists() else "made"
        if not discard_authority_key:
            _write(ca_key, _key_bytes(authority_key), private=True)
        _write(ca, _certificate_bytes(authority), private=False)
    certificate, certificate_key = make_certificate(authority, authority_key, hosts, days)
    _write(key, _key_bytes(certificate_key), private=True)
    _write(cert, _certificate_bytes(certificate), private=False)
    return f"{done}: {cert} is valid until {certificate.not_valid_after_utc:%Y-%m-%d}"


def kubernetes_secret(folder: Path, name: str) -> str:
    """The files as a Kubernetes Secret (JSON, which kubectl reads), with the keys that cert-manager uses too."""
    files = {"ca.crt": "ca.pem", "tls.crt": "cert.pem", "tls.key": "key.pem"}
    data = {field: base64.b64encode((folder / file).read_bytes()).decode() for field, file in files.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name}}
    return json.dumps({**secret, "data": data})


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: python make_certificates.py certs --host node1"
    )
    parser.add_argument("folder", type=Path, help="where the four files are, or will be")
    parser.add_argument("--host", action="append", default=[], help="a name or address of a party; may be repeated")
    parser.add_argument("--days", type=int, default=365, help="how long a new certificate is valid (365)")
    parser.add_argument("--renew", action="store_true", help="make a new certificate and key from the same authority")
    parser.add_argument("--new-authority", action="store_true", help="start over: old certificates are refused")
    parser.add_argument("--discard-authority-key", action="store_true", help="never write ca-key.pem")
    parser.add_argument("--print-secret", metavar="NAME", help="print the files as a Kubernetes Secret of this name")
    options = parser.parse_args(arguments)
    if options.days <= _RENEW_BEFORE.days:
        parser.error(
            f"--days must be more than {_RENEW_BEFORE.days}: shorter certificates would be replaced at every start"
        )
    done = make_files(
        options.folder,
        options.host,
        options.days,
        options.renew,
        options.new_authority,
        options.discard_authority_key,
    )
    print(done, file=sys.stderr)
    if options.print_secret:
        print(kubernetes_secret(options.folder, options.print_secret))
    return 0


if __name__ == "__main__":
    sys.exit(main())
