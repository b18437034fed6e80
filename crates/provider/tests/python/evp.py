"""OpenSSL's EVP interface, by ctypes: what the checks beside this file share.

The configuration that OPENSSL_CONF names loads the provider and OpenSSL's own, so that every call can be
made on both in one process.
"""
import ctypes
import ctypes.util
import random

crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
P, I, S = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
for name, result, arguments in [
    ("EVP_CIPHER_fetch", P, [P, S, S]),
    ("EVP_CIPHER_free", None, [P]),
    ("EVP_CIPHER_get0_provider", P, [P]),
    ("OSSL_PROVIDER_get0_name", S, [P]),
    ("EVP_CIPHER_CTX_new", P, []),
    ("EVP_CIPHER_CTX_free", None, [P]),
    ("EVP_CIPHER_CTX_copy", I, [P, P]),
    ("EVP_CipherInit_ex", I, [P, P, P, P, P, I]),
    ("EVP_CipherInit_ex2", I, [P, P, P, P, I, P]),
    ("EVP_CipherUpdate", I, [P, P, P, P, I]),
    ("EVP_CipherFinal_ex", I, [P, P, P]),
    ("EVP_Cipher", I, [P, P, P, ctypes.c_uint]),
    ("EVP_CIPHER_CTX_ctrl", I, [P, I, I, P]),
    ("EVP_CIPHER_CTX_set_padding", I, [P, I]),
    ("EVP_CIPHER_CTX_set_key_length", I, [P, I]),
    ("EVP_CIPHER_CTX_get_key_length", I, [P]),
    ("EVP_CIPHER_CTX_get_iv_length", I, [P]),
    ("EVP_CIPHER_CTX_get_block_size", I, [P]),
    ("EVP_CIPHER_CTX_get_num", I, [P]),
    ("EVP_CIPHER_CTX_set_num", I, [P, I]),
    ("EVP_CIPHER_CTX_get_original_iv", I, [P, P, ctypes.c_size_t]),
    ("EVP_CIPHER_CTX_get_updated_iv", I, [P, P, ctypes.c_size_t]),
    ("EVP_CIPHER_get_flags", ctypes.c_ulong, [P]),
    ("EVP_CIPHER_get_mode", I, [P]),
    ("EVP_CIPHER_get_nid", I, [P]),
    ("EVP_CIPHER_get_block_size", I, [P]),
    ("EVP_CIPHER_get_iv_length", I, [P]),
    ("EVP_CIPHER_get_key_length", I, [P]),
    ("EVP_CIPHER_CTX_set_params", I, [P, P]),
    ("EVP_CIPHER_CTX_get_params", I, [P, P]),
    ("ERR_clear_error", None, []),
    ("ERR_get_error", ctypes.c_ulong, []),
    ("ERR_reason_error_string", S, [ctypes.c_ulong]),
]:
    function = getattr(crypto, name)
    function.restype, function.argtypes = result, arguments

SET_IVLEN, GET_TAG, SET_TAG, SET_IV_FIXED, TLS1_AAD = 0x9, 0x10, 0x11, 0x12, 0x16
GCM_IV_GEN, GCM_SET_IV_INV = 0x13, 0x18

#: name, bytes of the key, of the IV, kind
CIPHERS = [
    *((f"AES-{8 * n}-GCM", n, 12, "aead") for n in (16, 24, 32)),
    ("ChaCha20-Poly1305", 32, 12, "aead"),
    *((f"AES-{8 * n}-CTR", n, 16, "stream") for n in (16, 24, 32)),
    *((f"AES-{4 * n}-XTS", n, 16, "xts") for n in (32, 64)),
    *((f"AES-{8 * n}-CBC", n, 16, "block") for n in (16, 24, 32)),
]


class Param(ctypes.Structure):
    """OSSL_PARAM."""

    _fields_ = [("key", S), ("type", ctypes.c_uint), ("data", P), ("size", ctypes.c_size_t), ("ret", ctypes.c_size_t)]


class Cipher:
    """One context of one provider."""

    def __init__(self, name, provider):
        self.cipher = crypto.EVP_CIPHER_fetch(None, name.encode(), f"provider={provider}".encode())
        assert self.cipher, f"{provider} has no {name}"
        found = crypto.OSSL_PROVIDER_get0_name(crypto.EVP_CIPHER_get0_provider(self.cipher))
        assert found.decode() == provider, found
        self.context = crypto.EVP_CIPHER_CTX_new()

    def __del__(self):
        if getattr(self, "context", None):
            crypto.EVP_CIPHER_CTX_free(self.context)
            crypto.EVP_CIPHER_free(self.cipher)

    def copy(self):
        other = object.__new__(Cipher)
        other.cipher, other.context = None, crypto.EVP_CIPHER_CTX_new()
        assert crypto.EVP_CIPHER_CTX_copy(other.context, self.context) == 1
        return other

    def init(self, key, iv, encrypt):
        """Either may be None; encrypt is 1, 0, or -1 to leave it."""
        return crypto.EVP_CipherInit_ex(self.context, self.cipher, None, key, iv, encrypt)

    def again(self, key, iv, encrypt):
        """The same without naming the cipher."""
        return crypto.EVP_CipherInit_ex(self.context, None, None, key, iv, encrypt)

    def update(self, data, in_place=False, shift=0):
        """(result, output); shift moves the output against the input in one buffer."""
        room = len(data) + 32
        buffer = ctypes.create_string_buffer(2 * room + 64)
        base = ctypes.addressof(buffer)
        source = base + (shift if shift > 0 else 0)
        target = source if in_place else base + room + 32
        if shift:
            target = source - shift
        ctypes.memmove(source, data, len(data))
        length = ctypes.c_int(-1)
        result = crypto.EVP_CipherUpdate(self.context, target, ctypes.byref(length), source, len(data))
        return result, ctypes.string_at(target, max(length.value, 0)) if result == 1 else b""

    def associate(self, data):
        length = ctypes.c_int(-1)
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        return crypto.EVP_CipherUpdate(self.context, None, ctypes.byref(length), buffer, len(data))

    def final(self):
        buffer, length = ctypes.create_string_buffer(64), ctypes.c_int(-1)
        result = crypto.EVP_CipherFinal_ex(self.context, buffer, ctypes.byref(length))
        return result, buffer.raw[: length.value] if result == 1 else b""

    def raw(self, data):
        buffer = ctypes.create_string_buffer(data, len(data) + 64)
        result = crypto.EVP_Cipher(self.context, buffer, buffer, len(data))
        return result, buffer.raw[: max(result, 0)]

    def ctrl(self, which, number, data=None):
        return crypto.EVP_CIPHER_CTX_ctrl(self.context, which, number, data)

    def tag(self, length=16):
        buffer = ctypes.create_string_buffer(16)
        result = self.ctrl(GET_TAG, length, buffer)
        return result, buffer.raw[:length] if result == 1 else b""

    def ivs(self):
        first, now = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
        results = (
            crypto.EVP_CIPHER_CTX_get_original_iv(self.context, first, 16),
            crypto.EVP_CIPHER_CTX_get_updated_iv(self.context, now, 16),
        )
        return results, first.raw, now.raw

    def num(self):
        return crypto.EVP_CIPHER_CTX_get_num(self.context)

    def shape(self):
        return tuple(
            function(self.cipher)
            for function in (
                crypto.EVP_CIPHER_get_flags,
                crypto.EVP_CIPHER_get_mode,
                crypto.EVP_CIPHER_get_nid,
                crypto.EVP_CIPHER_get_block_size,
                crypto.EVP_CIPHER_get_iv_length,
                crypto.EVP_CIPHER_get_key_length,
            )
        )


class Both:
    """A context of each provider: every call is made on both, and has to come to the same."""

    checks = 0

    def __init__(self, name, note=""):
        self.name, self.note, self.log = name, note, []
        self.ours, self.theirs = Cipher(name, "strongroom"), Cipher(name, "default")

    def copy(self):
        other = object.__new__(Both)
        other.name, other.note, other.log = self.name, self.note, [*self.log, "copy"]
        other.ours, other.theirs = self.ours.copy(), self.theirs.copy()
        return other

    def __getattr__(self, method):
        def call(*arguments, **named):
            self.log.append((method, *(a if not isinstance(a, bytes) or len(a) < 20 else len(a) for a in arguments), named))
            ours = getattr(self.ours, method)(*arguments, **named)
            theirs = getattr(self.theirs, method)(*arguments, **named)
            Both.checks += 1
            assert ours == theirs, f"{self.name} {self.note}: {method}: {ours!r} for {theirs!r}, after {self.log}"
            return ours

        return call


def piece(rng):
    """A length: short, around a block, around what is done at once, or long."""
    return rng.choice(
        [
            lambda: rng.randrange(4),
            lambda: rng.randrange(40),
            lambda: 16 * rng.randrange(80),
            lambda: 512 * rng.randrange(5) + rng.randrange(3),
            lambda: rng.randrange(600),
            lambda: rng.randrange(40_000),
        ]
    )()


def seeded(number):
    return random.Random(number)
