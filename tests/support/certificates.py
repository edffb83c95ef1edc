"""Certificates for servers in tests: of an authority of our own, for any name, also out of date."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dupeproof_lab.servers import Certificate

DAY = timedelta(days=1)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(subject, key, issuer, issuer_key, until, *extensions):
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 30 * DAY)
        .not_valid_after(until)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


class Authority:
    """Signs certificates for servers, as files in a folder."""

    def __init__(self, folder, name="test authority"):
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        ca = (x509.BasicConstraints(ca=True, path_length=0), True)
        sign = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        made = _signed(
            name, self._key, name, self._key, datetime.now(UTC) + DAY, ca, (sign, True), self._identifier()
        )
        self.cafile = folder / f"{name.replace(' ', '-')}.pem"
        self.cafile.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def _identifier(self):
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False

    def certificate(self, *names, expired=False):
        """For `localhost` and the loopback, unless other names are given."""
        names = names or ("localhost", "127.0.0.1")
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
        ]
        until = datetime.now(UTC) + (-DAY if expired else DAY)
        made = _signed(
            names[0],
            key,
            self._name,
            self._key,
            until,
            (x509.SubjectAlternativeName(alternatives), False),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        )
        stem = f"{names[0]}{'-expired' if expired else ''}"
        certfile, keyfile = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        certfile.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        keyfile.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Certificate(certfile, keyfile, self.cafile)
