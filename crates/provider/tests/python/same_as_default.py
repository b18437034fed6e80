"""Random calls on the provider and on OpenSSL's own: results, bytes, tags, IVs and counters are the same."""
import ctypes
import sys

from evp import CIPHERS, GCM_IV_GEN, SET_IV_FIXED, SET_IVLEN, SET_TAG, TLS1_AAD, Both, Param, crypto, piece, seeded

ROUNDS = int(sys.argv[1])


def shapes():
    for name, *_ in CIPHERS:
        Both(name).shape()


def stream(rng, name, key_len, iv_len):
    both = Both(name, "stream")
    key, iv = rng.randbytes(key_len), rng.randbytes(iv_len)
    if rng.random() < 0.3:
        # The counter wraps.
        iv = b"\xff" * 15 + bytes([rng.randrange(200, 256)])
    if rng.random() < 0.5:
        both.init(key, iv, 1)
    else:
        both.init(None, None, 1)
        both.again(key, None, -1)
        both.again(None, iv, -1)
    for _ in range(rng.randrange(1, 12)):
        both.update(rng.randbytes(piece(rng)), in_place=rng.random() < 0.5)
        both.num()
        both.ivs()
        if rng.random() < 0.2:
            both = both.copy()
        if rng.random() < 0.1:
            both.again(None, iv, -1)
        if rng.random() < 0.1:
            both.again(key, None, -1)
    both.final()


def xts(rng, name, key_len, iv_len):
    both = Both(name, "xts")
    key = rng.randbytes(key_len)
    both.init(key, rng.randbytes(iv_len), rng.randrange(2))
    for _ in range(rng.randrange(1, 8)):
        both.update(rng.randbytes(16 + piece(rng)), in_place=rng.random() < 0.5)
        both.ivs()
        if rng.random() < 0.3:
            both.again(None, rng.randbytes(iv_len), -1)
        if rng.random() < 0.2:
            both = both.copy()
    both.update(rng.randbytes(rng.randrange(1, 16)))
    both.final()


def block(rng, name, key_len, iv_len):
    key, iv = rng.randbytes(key_len), rng.randbytes(iv_len)
    pads = rng.random() < 0.7
    both = Both(name, "encrypts")
    both.init(key, iv, 1)
    both.set_padding = None
    for context in (both.ours, both.theirs):
        crypto.EVP_CIPHER_CTX_set_padding(context.context, int(pads))
    sealed = b""
    for _ in range(rng.randrange(1, 10)):
        sealed += both.update(rng.randbytes(piece(rng)))[1]
        both.ivs()
        if rng.random() < 0.2:
            both = both.copy()
    sealed += both.final()[1]
    both = Both(name, "decrypts")
    both.init(key, iv, 0)
    for context in (both.ours, both.theirs):
        crypto.EVP_CIPHER_CTX_set_padding(context.context, int(pads))
    if rng.random() < 0.3 and sealed:
        # Mostly bad padding, or a piece of a block.
        cut = rng.randrange(len(sealed))
        sealed = sealed[:cut] if rng.random() < 0.5 else sealed[:cut] + b"x" + sealed[cut + 1 :]
    while sealed:
        length = piece(rng)
        # In place only while nothing waits: OpenSSL's own overwrites what it has not read.
        both.update(sealed[:length])
        both.ivs()
        sealed = sealed[length:]
        if rng.random() < 0.2:
            both = both.copy()
    both.final()
    both.again(None, None, -1)
    both.raw(rng.randbytes(16 * rng.randrange(1, 50)))
    both.ivs()


def aead(rng, name, key_len, iv_len):
    key = rng.randbytes(key_len)
    both = Both(name, "seals")
    if "GCM" in name:
        iv_len = rng.choice([12, 12, 12, 1, 8, 16, 60])
    else:
        iv_len = 12
    iv = rng.randbytes(iv_len)
    pieces = [rng.randbytes(piece(rng)) for _ in range(rng.randrange(6))]
    associated = [rng.randbytes(rng.choice([0, 1, 13, 16, 20, 600])) for _ in range(rng.randrange(3))]
    in_place = rng.random() < 0.5

    def begin(encrypt):
        both.init(None, None, encrypt)
        both.ctrl(SET_IVLEN, iv_len)
        if rng.random() < 0.5:
            both.again(key, iv, -1)
        else:
            both.again(key, None, -1)
            both.again(None, iv, -1)

    for _ in range(2):
        begin(1)
        for data in associated:
            both.associate(data)
        if rng.random() < 0.3:
            both = both.copy()
        sealed = [both.update(data, in_place=in_place)[1] for data in pieces]
        if rng.random() < 0.3:
            both = both.copy()
        both.final()
        tag_len = rng.choice([16, 16, 12, 4])
        tag = both.tag(tag_len)[1]
        both.tag(0)
        both.tag(17)
    for forged in (False, True):
        both = Both(name, "opens")
        both.init(None, None, 0)
        both.ctrl(SET_IVLEN, iv_len)
        both.again(key, iv, -1)
        wrong = bytes([tag[0] ^ 1]) + tag[1:] if forged else tag
        if rng.random() < 0.5:
            both.ctrl(SET_TAG, tag_len, wrong)
            late = False
        else:
            late = True
        for data in associated:
            both.associate(data)
        for data in sealed:
            both.update(data, in_place=in_place)
        if late:
            both.ctrl(SET_TAG, tag_len, wrong)
        result = both.final()[0]
        assert (result == 1) == (not forged), name
    both.tag(16)


def faults():
    for name, key_len, iv_len, kind in CIPHERS:
        both = Both(name, "without a key")
        both.init(None, None, 1)
        if name.startswith("AES"):
            both.update(b"x" * 32)
        else:
            # OpenSSL's own takes one of zeros.
            assert both.ours.update(b"x" * 32)[0] == 0, name
        key, iv = bytes(range(key_len)), bytes(iv_len)
        if kind == "xts":
            both = Both(name, "equal keys")
            both.init(bytes(key_len), iv, 1)
            both = Both(name, "equal keys, decrypting")
            both.init(bytes(key_len), iv, 0)
            both.update(b"x" * 40)
            both = Both(name, "no iv")
            both.init(key, None, 1)
            both.update(b"x" * 40)
        if kind == "aead":
            both = Both(name, "opens without a tag")
            both.init(key, iv, 0)
            both.update(b"x" * 40)
            if name.startswith("AES"):
                both.final()
            else:
                # OpenSSL's own calls that right.
                assert both.ours.final()[0] == 0, name
            both = Both(name, "an empty message")
            both.init(key, iv, 1)
            both.final()
            both.tag()
            both = Both(name, "a tag that is not there")
            both.init(key, iv, 1)
            # OpenSSL's own ChaCha20-Poly1305 gives zeros.
            assert both.ours.tag()[0] == 0, name
            both.ctrl(SET_TAG, 16, bytes(16))
            both.ctrl(SET_IVLEN, 0)
            both.ctrl(SET_IVLEN, 200)
        for length in (key_len - 1, key_len + 1, key_len):
            both = Both(name, "key lengths")
            both.init(None, None, 1)
            results = [
                crypto.EVP_CIPHER_CTX_set_key_length(context.context, length) > 0
                for context in (both.ours, both.theirs)
            ]
            assert results[0] == results[1], (name, length, results)
    both = Both("AES-256-GCM", "a message goes no further")
    both.init(bytes(32), bytes(12), 1)
    both.update(b"one")
    both.final()
    both.update(b"two")
    both.again(None, bytes(11) + b"\1", -1)
    both.update(b"three")


def fixed_iv(context, fixed):
    return context.ctrl(SET_IV_FIXED, len(fixed), fixed)


def records_gcm(rng):
    """A connection of TLS 1.2: each side seals, and the other provider opens."""
    key, fixed = rng.randbytes(16), rng.randbytes(4)
    both = Both("AES-128-GCM", "records")
    for sealer, opener in ((both.ours, both.theirs), (both.theirs, both.ours)):
        for context, encrypt in ((sealer, 1), (opener, 0)):
            assert context.init(key, None, encrypt) == 1
            assert fixed_iv(context, fixed) == 1
        explicit = []
        for sequence in range(20):
            payload = rng.randbytes(rng.choice([0, 1, 100, rng.randrange(16_384), 16_384]))
            record = record_of(sealer, sequence, bytes(8) + payload + bytes(16), len(payload) + 8)
            assert record[0] == 1 and len(record[1]) == len(payload) + 24, record
            explicit.append(record[1][:8])
            wire = record[1]
            if sequence % 5 == 4:
                at = rng.randrange(len(wire))
                forged = wire[:at] + bytes([wire[at] ^ 4]) + wire[at + 1 :]
                assert record_of(opener, sequence, forged, len(wire))[0] != 1
            # libssl finds the payload behind the explicit part of the IV.
            opened = record_of(opener, sequence, wire, len(wire), skip=8)
            assert opened == (1, payload), (sequence, opened[0])
            Both.checks += 2
        numbers = [int.from_bytes(iv, "big") for iv in explicit]
        assert all((b - a) % 2**64 == 1 for a, b in zip(numbers, numbers[1:])), numbers


def record_of(context, sequence, record, length, skip=0):
    ad = sequence.to_bytes(8, "big") + b"\x17\x03\x03" + length.to_bytes(2, "big")
    assert context.ctrl(TLS1_AAD, 13, ad) == 16
    buffer = ctypes.create_string_buffer(record, len(record) + 1)
    out = ctypes.c_int(-1)
    result = crypto.EVP_CipherUpdate(context.context, buffer, ctypes.byref(out), buffer, len(record))
    return result, buffer.raw[skip : skip + out.value] if result == 1 else b""


def records_chacha(rng):
    key, iv = rng.randbytes(32), rng.randbytes(12)
    both = Both("ChaCha20-Poly1305", "records")
    for sealer, opener in ((both.ours, both.theirs), (both.theirs, both.ours)):
        assert sealer.init(key, iv, 1) == 1 and opener.init(key, iv, 0) == 1
        for sequence in range(20):
            payload = rng.randbytes(rng.choice([1, 100, rng.randrange(1, 16_384), 16_384]))
            result, wire = record_of(sealer, sequence, payload + bytes(16), len(payload))
            assert result == 1 and len(wire) == len(payload) + 16
            if sequence % 5 == 4:
                assert record_of(opener, sequence, wire[:-1] + bytes([wire[-1] ^ 1]), len(wire))[0] != 1
            assert record_of(opener, sequence, wire, len(wire)) == (1, payload)
            Both.checks += 2


def records_cbc(rng):
    """Padding and MAC as libssl has the cipher handle them, against OpenSSL's own."""
    for name, key_len in (("AES-128-CBC", 16), ("AES-256-CBC", 32)):
        for version, explicit in ((0x0301, 0), (0x0302, 16), (0x0303, 16)):
            for mac_len in (0, 20, 32, 48):
                both = Both(name, f"records {version:x} {mac_len}")
                seals = Both(name, "seals records")
                key, iv = rng.randbytes(key_len), rng.randbytes(16)
                for pair, encrypt in ((seals, 1), (both, 0)):
                    pair.init(key, iv, encrypt)
                    for context in (pair.ours, pair.theirs):
                        tls(context, version, mac_len)
                for _ in range(6):
                    data = rng.randbytes(explicit + rng.randrange(700) + mac_len)
                    result, wire = seals.update(data, in_place=True)
                    assert result == 1 and len(wire) % 16 == 0
                    buffers = []
                    for context in (both.ours, both.theirs):
                        buffer, out = ctypes.create_string_buffer(wire, len(wire) + 1), ctypes.c_int(-1)
                        result = crypto.EVP_CipherUpdate(
                            context.context, buffer, ctypes.byref(out), buffer, len(wire)
                        )
                        text = buffer.raw[explicit : explicit + out.value]
                        buffers.append((result, out.value, text, mac_of(context, mac_len)))
                    assert buffers[0] == buffers[1], both.note
                    assert buffers[0][2] + buffers[0][3] == data[explicit:], both.note
                    Both.checks += 2


def tls(context, version, mac_len):
    number, size = ctypes.c_uint(version), ctypes.c_size_t(mac_len)
    params = (Param * 3)(
        Param(b"tls-version", 2, ctypes.addressof(number), 4, 0),
        Param(b"tls-mac-size", 2, ctypes.addressof(size), 8, 0),
        Param(None, 0, None, 0, 0),
    )
    assert crypto.EVP_CIPHER_CTX_set_params(context.context, params) == 1


def mac_of(context, mac_len):
    if mac_len == 0:
        return b""
    place = ctypes.c_void_p()
    params = (Param * 2)(Param(b"tls-mac", 7, ctypes.addressof(place), mac_len, 0), Param(None, 0, None, 0, 0))
    assert crypto.EVP_CIPHER_CTX_get_params(context.context, params) == 1
    return ctypes.string_at(place.value, mac_len)


shapes()
faults()
kinds = {"stream": stream, "xts": xts, "block": block, "aead": aead}
for number in range(ROUNDS):
    rng = seeded(number)
    for name, key_len, iv_len, kind in CIPHERS:
        kinds[kind](rng, name, key_len, iv_len)
for number in range(3):
    records_gcm(seeded(number))
    records_chacha(seeded(number))
    records_cbc(seeded(number))
print(f"{Both.checks} calls came to the same")
