"""The TLS files: a chain that Python's ssl accepts in both directions, kept, renewed and refused as they should be."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import kubernetes_validate
import pytest
from cryptography import x509

from deploy.make_certificates import main, make_files


def _context(folder: Path, protocol: int, check_hostname: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = check_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "ca.pem")
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def _shake_hands(client_folder: Path, server_folder: Path, name: str = "localhost") -> str | None:
    """A TLS connection in memory with both sides verified; returns its version."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _context(client_folder, ssl.PROTOCOL_TLS_CLIENT, True).wrap_bio(to_client, to_server, server_hostname=name)
    server = _context(server_folder, ssl.PROTOCOL_TLS_SERVER, False).wrap_bio(to_server, to_client, server_side=True)
    unfinished = [client, server]
    for _ in range(10):
        for side in list(unfinished):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            unfinished.remove(side)
    assert unfinished == []
    return client.version()


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.pem")}


def test_both_ends_accept_each_other_by_name_and_by_address(tmp_path):
    make_files(tmp_path, ["scheduler", "10.0.0.7"])
    for name in ("scheduler", "10.0.0.7", "localhost", "127.0.0.1"):
        assert _shake_hands(tmp_path, tmp_path, name) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        _shake_hands(tmp_path, tmp_path, "elsewhere")


def test_certificates_of_another_authority_are_refused(tmp_path):
    make_files(tmp_path / "ours")
    make_files(tmp_path / "theirs")
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(tmp_path / "ours", tmp_path / "theirs")


def test_a_strict_verifier_accepts_the_chain(tmp_path):
    make_files(tmp_path)
    certificates = [x509.load_pem_x509_certificate((tmp_path / name).read_bytes()) for name in ("ca.pem", "cert.pem")]
    store = x509.verification.Store(certificates[:1])
    verifier = x509.verification.PolicyBuilder().store(store).build_server_verifier(x509.DNSName("localhost"))
    assert verifier.verify(certificates[1], []) == certificates[::-1]


def test_good_files_are_kept_and_a_new_host_renews_them(tmp_path):
    make_files(tmp_path, ["node1"])
    before = _contents(tmp_path)
    assert make_files(tmp_path, ["node1"]).startswith("kept")
    assert _contents(tmp_path) == before
    assert make_files(tmp_path, ["node1", "node2"]).startswith("renewed")
    after = _contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"cert.pem", "key.pem"}


def test_renewed_certificates_talk_to_those_they_replace(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    make_files(old)
    new.mkdir()
    for name, content in _contents(old).items():
        (new / name).write_bytes(content)
    make_files(new, renew=True)
    assert _contents(new)["cert.pem"] != _contents(old)["cert.pem"]
    assert _shake_hands(old, new)
    assert _shake_hands(new, old)
    assert "new authority" in make_files(new, new_authority=True)
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(old, new)


def test_files_near_their_end_are_replaced(tmp_path):
    make_files(tmp_path, days=5)
    assert make_files(tmp_path).startswith("renewed")
    assert make_files(tmp_path).startswith("kept")


def test_keys_are_private_and_the_authority_key_can_be_thrown_away(tmp_path):
    make_files(tmp_path / "certs", discard_authority_key=True)
    assert sorted(path.name for path in (tmp_path / "certs").iterdir()) == [
        ".gitignore",
        "ca.pem",
        "cert.pem",
        "key.pem",
    ]
    assert (tmp_path / "certs").stat().st_mode & 0o077 == 0
    assert (tmp_path / "certs" / "key.pem").stat().st_mode & 0o077 == 0
    assert make_files(tmp_path / "certs", discard_authority_key=True).startswith("kept")
    assert _shake_hands(tmp_path / "certs", tmp_path / "certs")


def test_the_secret_is_a_valid_one_with_the_names_that_the_manifests_read(tmp_path, capsys):
    assert main([str(tmp_path), "--host", "dtree-scheduler", "--print-secret", "dtree-tls"]) == 0
    secret = json.loads(capsys.readouterr().out)
    kubernetes_validate.validate(secret, "1.34", strict=True)
    assert sorted(secret["data"]) == ["ca.crt", "tls.crt", "tls.key"]


def test_days_that_would_never_be_kept_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--days", "7"])
    assert "--days must be more than 7" in capsys.readouterr().err
