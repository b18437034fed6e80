"""What the provider seals Python's `cryptography` opens, and the other way: it has another OpenSSL built in."""
import sys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher as Theirs
    from cryptography.hazmat.primitives.ciphers import algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
except ImportError:
    print("skipped: Python has no package `cryptography`")
    sys.exit(0)

from evp import CIPHERS, SET_TAG, Cipher, piece, seeded


def pieces(rng, data):
    while data:
        length = piece(rng)
        yield data[:length]
        data = data[length:]


def ours(rng, name, key, iv, data, encrypt, associated=None, tag=None):
    context = Cipher(name, "strongroom")
    assert context.init(key, iv, encrypt) == 1
    if tag is not None:
        assert context.ctrl(SET_TAG, 16, tag) == 1
    if associated:
        assert context.associate(associated) == 1
    parts = [data] if "XTS" in name else pieces(rng, data)
    out = b"".join(context.update(part)[1] for part in parts)
    result, last = context.final()
    return result, out + last, context.tag()[1] if associated is not None and encrypt else b""


count = 0
for number in range(40):
    rng = seeded(number)
    for name, key_len, iv_len, kind in CIPHERS:
        key, iv = rng.randbytes(key_len), rng.randbytes(iv_len)
        data = rng.randbytes(16 + rng.randrange(20_000))
        if kind == "aead":
            theirs = (AESGCM if "GCM" in name else ChaCha20Poly1305)(key)
            associated = rng.randbytes(rng.randrange(100))
            sealed = theirs.encrypt(iv, data, associated)
            opened = ours(rng, name, key, iv, sealed[:-16], 0, associated, sealed[-16:])
            assert opened[:2] == (1, data), name
            result, out, tag = ours(rng, name, key, iv, data, 1, associated)
            assert theirs.decrypt(iv, out + tag, associated) == data, name
            try:
                theirs.decrypt(iv, out + bytes([tag[0] ^ 1]) + tag[1:], associated)
                raise AssertionError("a forged tag was taken")
            except InvalidTag:
                pass
        else:
            mode = {"CTR": modes.CTR, "XTS": modes.XTS, "CBC": modes.CBC}[name[-3:]](iv)
            if kind == "block":
                data = data[: len(data) // 16 * 16]
                padded = data + bytes([16]) * 16
            else:
                padded = data
            encryptor = Theirs(algorithms.AES(key), mode).encryptor()
            sealed = encryptor.update(padded) + encryptor.finalize()
            assert ours(rng, name, key, iv, data, 1)[1] == sealed, name
            assert ours(rng, name, key, iv, sealed, 0)[:2] == (1, data), name
        count += 2
print(f"{count} messages went both ways")
