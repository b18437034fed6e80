#!/usr/bin/env python3
"""The suites `serpent-256-poly1305` and `cascade` by the document alone (vault.md, section 3.1).

A second implementation, slow and short, in Python without other modules than
its own. Without arguments it checks suites.json beside it and the published
vectors of the ciphers; with `make` it prints what suites.json holds.
"""

import hashlib
import hmac
import json
import pathlib
import sys

VECTORS = pathlib.Path(__file__).with_name("suites.json")
MASK = 0xFFFFFFFF


def words(data):
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def unwords(values):
    return b"".join(value.to_bytes(4, "little") for value in values)


def rol(x, n):
    return (x << n | x >> (32 - n)) & MASK


def ror(x, n):
    return rol(x, 32 - n)


def multiply(a, b, polynomial):
    """In GF(2^8)."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= polynomial
        b >>= 1
    return product


# Serpent (Anderson, Biham, Knudsen 1998), words of 32 bits, an S-box on bit i of four words.
SERPENT_BOXES = [
    [int(digit, 16) for digit in row]
    for row in (
        "38f1a65bed42709c",
        "fc27905a1be86d34",
        "86793cafd1e40b52",
        "0fb8c963d124a75e",
        "1f83c0b6254a9e7d",
        "f52b4a9c03e8d671",
        "72c5846be91fd3a0",
        "1df0e82b74ca9356",
    )
]


def serpent_box(box, x):
    out = [0, 0, 0, 0]
    for bit in range(32):
        nibble = sum((x[i] >> bit & 1) << i for i in range(4))
        for i in range(4):
            out[i] |= (SERPENT_BOXES[box][nibble] >> i & 1) << bit
    return out


def serpent(key):
    w = words(key)
    for i in range(132):
        w.append(rol(w[i] ^ w[i + 3] ^ w[i + 5] ^ w[i + 7] ^ 0x9E3779B9 ^ i, 11))
    keys = [serpent_box((3 - i) % 8, w[8 + 4 * i : 12 + 4 * i]) for i in range(33)]

    def encrypt(block):
        x = words(block)
        for i in range(32):
            x = serpent_box(i % 8, [a ^ b for a, b in zip(x, keys[i])])
            if i < 31:
                x[0], x[2] = rol(x[0], 13), rol(x[2], 3)
                x[1] = rol(x[1] ^ x[0] ^ x[2], 1)
                x[3] = rol(x[3] ^ x[2] ^ (x[0] << 3 & MASK), 7)
                x[0] = rol(x[0] ^ x[1] ^ x[3], 5)
                x[2] = rol(x[2] ^ x[3] ^ (x[1] << 7 & MASK), 22)
        return unwords([a ^ b for a, b in zip(x, keys[32])])

    return encrypt


# Twofish (Schneier and others 1998), sections 4.2 and 4.3.
TWOFISH_NIBBLES = [
    ["817d6f320b59eca4", "ecb81235f4a6709d", "ba5e6d90c8f32471", "d7f4126e9b3085ca"],
    ["28bdf76e31940ac5", "1e2b4c376da5f908", "4c75169a0ed82b3f", "b951c3de647f208a"],
]
TWOFISH_MATRIX = [[0x01, 0xEF, 0x5B, 0x5B], [0x5B, 0xEF, 0xEF, 0x01], [0xEF, 0x5B, 0x01, 0xEF], [0xEF, 0x01, 0xEF, 0x5B]]
TWOFISH_CODE = [
    [0x01, 0xA4, 0x55, 0x87, 0x5A, 0x58, 0xDB, 0x9E],
    [0xA4, 0x56, 0x82, 0xF3, 0x1E, 0xC6, 0x68, 0xE5],
    [0x02, 0xA1, 0xFC, 0xC1, 0x47, 0xAE, 0x3D, 0x19],
    [0xA4, 0x55, 0x87, 0x5A, 0x58, 0xDB, 0x9E, 0x03],
]


def twofish_q(which, x):
    t = [[int(digit, 16) for digit in row] for row in TWOFISH_NIBBLES[which]]
    a, b = x >> 4, x & 15
    for first, second in ((0, 1), (2, 3)):
        a, b = a ^ b, a ^ (b >> 1 | (b & 1) << 3) ^ (8 * a & 15)
        a, b = t[first][a], t[second][b]
    return b << 4 | a


Q = [[twofish_q(which, x) for x in range(256)] for which in range(2)]
# By number of keys left, the permutation of each byte.
TWOFISH_ORDER = [[1, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 1]]


def twofish_h(x, keys):
    y = list(x.to_bytes(4, "little"))
    for left in range(len(keys), 0, -1):
        key = keys[left - 1].to_bytes(4, "little")
        y = [Q[TWOFISH_ORDER[left][i]][y[i]] ^ key[i] for i in range(4)]
    y = [Q[TWOFISH_ORDER[0][i]][y[i]] for i in range(4)]
    out = 0
    for i, row in enumerate(TWOFISH_MATRIX):
        byte = 0
        for factor, value in zip(row, y):
            byte ^= multiply(value, factor, 0x169)
        out |= byte << 8 * i
    return out


def twofish(key):
    even, odd = words(key)[0::2], words(key)[1::2]
    boxes = []
    for i in range(0, len(key), 8):
        vector = bytearray()
        for row in TWOFISH_CODE:
            byte = 0
            for factor, value in zip(row, key[i : i + 8]):
                byte ^= multiply(value, factor, 0x14D)
            vector.append(byte)
        boxes.insert(0, int.from_bytes(vector, "little"))
    k = []
    for i in range(20):
        a = twofish_h(2 * i * 0x01010101, even)
        b = rol(twofish_h((2 * i + 1) * 0x01010101, odd), 8)
        k += [(a + b) & MASK, rol((a + 2 * b) & MASK, 9)]
    # g byte by byte, looked up.
    g = [[twofish_h(byte << 8 * i, boxes) for byte in range(256)] for i in range(4)]
    zero = twofish_h(0, boxes)

    def look_up(x):
        # h is linear in what its four bytes become: three zeros are counted too often.
        return g[0][x & 255] ^ g[1][x >> 8 & 255] ^ g[2][x >> 16 & 255] ^ g[3][x >> 24] ^ zero

    def encrypt(block):
        r = [a ^ b for a, b in zip(words(block), k)]
        for i in range(16):
            t0, t1 = look_up(r[0]), look_up(rol(r[1], 8))
            r2 = ror(r[2] ^ (t0 + t1 + k[2 * i + 8] & MASK), 1)
            r3 = rol(r[3], 1) ^ (t0 + 2 * t1 + k[2 * i + 9] & MASK)
            r = [r2, r3, r[0], r[1]]
        return unwords([a ^ b for a, b in zip([r[2], r[3], r[0], r[1]], k[4:])])

    return encrypt


# AES (FIPS 197).
def aes_box(x):
    inverse = x
    for _ in range(6):
        inverse = multiply(multiply(inverse, inverse, 0x11B), x, 0x11B)
    inverse = multiply(inverse, inverse, 0x11B)
    turned = [(inverse << n | inverse >> (8 - n)) & 255 for n in range(5)]
    return turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63


AES_BOX = [aes_box(x) for x in range(256)]


def aes(key):
    w = [list(key[i : i + 4]) for i in range(0, 32, 4)]
    for i in range(8, 60):
        t = w[i - 1]
        if i % 8 == 0:
            t = [AES_BOX[x] for x in t[1:] + t[:1]]
            t[0] ^= 1 << (i // 8 - 1)
        elif i % 8 == 4:
            t = [AES_BOX[x] for x in t]
        w.append([a ^ b for a, b in zip(w[i - 8], t)])
    keys = [sum(w[i : i + 4], []) for i in range(0, 60, 4)]

    def encrypt(block):
        s = [a ^ b for a, b in zip(block, keys[0])]
        for i in range(1, 15):
            s = [AES_BOX[s[(j + 4 * (j % 4)) % 16]] for j in range(16)]
            if i < 14:
                mixed = []
                for column in range(0, 16, 4):
                    c = s[column : column + 4]
                    for j in range(4):
                        double = multiply(c[j] ^ c[(j + 1) % 4], 2, 0x11B)
                        mixed.append(double ^ c[(j + 1) % 4] ^ c[(j + 2) % 4] ^ c[(j + 3) % 4])
                s = mixed
            s = [a ^ b for a, b in zip(s, keys[i])]
        return bytes(s)

    return encrypt


CIPHERS = {"aes": aes, "twofish": twofish, "serpent": serpent}
SUITES = {"serpent-256-poly1305": ["serpent"], "cascade": ["aes", "twofish", "serpent"]}


def hkdf(key, info):
    """RFC 5869, SHA-256, no salt, 32 bytes."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\1", "sha256")


def poly1305(key, message):
    """RFC 8439, section 2.5, of whole blocks."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for i in range(0, len(message), 16):
        total = (total + int.from_bytes(message[i : i + 16], "little") + (1 << 128)) * r % ((1 << 130) - 5)
    return (total + int.from_bytes(key[16:], "little")).to_bytes(17, "little")[:16]


def padded(data):
    return data + bytes(-len(data) % 16)


def seal(suite, key, nonce, ad, plaintext):
    ciphers = [CIPHERS[name](hkdf(key, f"{suite} {name}\0".encode() + nonce[:12])) for name in SUITES[suite]]
    stream = bytearray()
    for counter in range(2 + -(-len(plaintext) // 16)):
        block = nonce[12:] + counter.to_bytes(4, "big")
        mask = bytes(16)
        for encrypt in ciphers:
            mask = bytes(a ^ b for a, b in zip(mask, encrypt(block)))
        stream += mask
    ciphertext = bytes(a ^ b for a, b in zip(plaintext, stream[32:]))
    lengths = len(ad).to_bytes(8, "little") + len(ciphertext).to_bytes(8, "little")
    inner = poly1305(stream[:32], padded(ad) + padded(ciphertext) + lengths)
    commitment = hkdf(key, f"{suite} commitment\0".encode())
    return ciphertext, hashlib.sha256(commitment + nonce + ad + inner).digest()[:16]


def sequence(first, length):
    return bytes((first + i) & 255 for i in range(length))


def cases():
    """One of each kind: nothing, less than a block, the conformance suite's, a page with its associated data."""
    for suite in SUITES:
        for ad, length in ((b"", 0), (b"", 1), (b"associated data", 75), (sequence(3, 40), 512)):
            yield suite, sequence(0, 32), sequence(0x40, 24), ad, sequence(0, length)
        yield suite, sequence(0x80, 32), bytes(24), sequence(0, 96), sequence(7, 1000)
        yield suite, bytes(32), b"\xff" * 24, b"", bytes(64)


def vectors():
    for suite, key, nonce, ad, plaintext in cases():
        ciphertext, tag = seal(suite, key, nonce, ad, plaintext)
        values = dict(key=key, nonce=nonce, ad=ad, plaintext=plaintext, ciphertext=ciphertext, tag=tag)
        yield dict(suite=suite, **{name: value.hex() for name, value in values.items()})


def check_ciphers():
    # FIPS 197 appendix C.3; the Twofish paper, section B.2; NESSIE, Serpent-256 set 1 vector 0.
    plain, key = bytes.fromhex("00112233445566778899aabbccddeeff"), sequence(0, 32)
    assert aes(key)(plain).hex() == "8ea2b7ca516745bfeafc49904b496089"
    key = bytes.fromhex("0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff")
    assert twofish(key)(bytes(16)).hex() == "37527be0052334b89f0cfccae87cfa20"
    assert serpent(b"\x80" + bytes(31))(bytes(16)).hex() == "a223aa1288463c0e2be38ebd825616c0"


if __name__ == "__main__":
    check_ciphers()
    if sys.argv[1:] == ["make"]:
        print(json.dumps(list(vectors()), indent=1))
    elif list(vectors()) == json.loads(VECTORS.read_text()):
        print("suites.json is as computed here")
    else:
        sys.exit("suites.json is not as computed here")
