#!/usr/bin/env python3
"""Reads a vault from docs/format/vault.md alone: a second implementation, small and slow.

    reader.py VAULT PASSWORD

prints one JSON object: each path of the plain tree with its kind and attributes, a file's length and SHA-256 (of a
long one those of its blocks), a symlink's target, a device's number. Whatever does not open is named under "damaged". It reads vaults that ended
cleanly: it replays no journal.

It needs Debian's python3-cryptography and python3-argon2. AEGIS, HChaCha20 and the XAES key derivation are here,
since no package has them everywhere.
"""

import base64
import hashlib
import hmac
import json
import os
import stat
import struct
import sys

import argon2.low_level
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PAGE = 4096
GROUP = 128
# A longer file is told of by its blocks.
WHOLE = 1 << 24
# Of the format.
VERSION = 4


class Damaged(Exception):
    """What does not open, or is not as the document says."""


# Section 3: suites.


def xaes_256_gcm(key):
    """C2SP XAES-256-GCM: a key of 32 bytes from the nonce's first 12, by CMAC's two blocks."""

    def block(data):
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        return encryptor.update(data)

    l = int.from_bytes(block(bytes(16)), "big")
    k1 = (l << 1) & ((1 << 128) - 1)
    if l >> 127:
        k1 ^= 0x87
    k1 = k1.to_bytes(16, "big")

    def open_(nonce, sealed, associated):
        def half(counter):
            message = struct.pack(">H", counter) + b"X\0" + nonce[:12]
            return block(bytes(a ^ b for a, b in zip(message, k1)))

        return AESGCM(half(1) + half(2)).decrypt(nonce[12:], sealed, associated)

    return open_


def hchacha20(key, nonce):
    def rotate(x, n):
        return ((x << n) | (x >> (32 - n))) & 0xFFFFFFFF

    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))

    def quarter(a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xFFFFFFFF
            state[z] = rotate(state[z] ^ state[x], n)

    for _ in range(10):
        for quad in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            quarter(*quad)
        for quad in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(*quad)
    return struct.pack("<8I", *state[:4], *state[12:])


def xchacha20_poly1305(key):
    def open_(nonce, sealed, associated):
        subkey = hchacha20(key, nonce[:16])
        return ChaCha20Poly1305(subkey).decrypt(bytes(4) + nonce[16:], sealed, associated)

    return open_


def _sbox():
    box, p, q = [0] * 256, 1, 1
    while True:
        p = p ^ ((p << 1) & 0xFF) ^ (0x1B if p & 0x80 else 0)
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        x = q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4)
        box[p] = (x ^ 0x63) & 0xFF
        if p == 1:
            break
    box[0] = 0x63
    return box


SBOX = _sbox()
TWICE = [(x << 1) ^ (0x11B if x & 0x80 else 0) for x in range(256)]


def aes_round(block, round_key):
    """One round of AES: SubBytes, ShiftRows, MixColumns, AddRoundKey."""
    out = bytearray(16)
    for column in range(4):
        a, b, c, d = (SBOX[block[4 * ((column + row) % 4) + row]] for row in range(4))
        every = a ^ b ^ c ^ d
        for row, (x, y) in enumerate(((a, b), (b, c), (c, d), (d, a))):
            out[4 * column + row] = x ^ every ^ TWICE[x ^ y] ^ round_key[4 * column + row]
    return bytes(out)


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def both(a, b):
    return bytes(x & y for x, y in zip(a, b))


def aegis_256x(key, degree):
    """AEGIS-256X with a degree of 2 or 4 (draft-irtf-cfrg-aegis-aead), with a tag of 16 bytes."""
    rate = 16 * degree
    c0 = bytes.fromhex("000101020305080d1522375990e97962")
    c1 = bytes.fromhex("db3d18556dc22ff12011314273b528dd")

    def lanes(block):
        return block * degree

    def update(state, message):
        def rounds(a, b):
            return b"".join(aes_round(a[i : i + 16], b[i : i + 16]) for i in range(0, rate, 16))

        previous = state[5]
        new = [rounds(state[(i - 1) % 6], state[i]) for i in range(6)]
        new[0] = rounds(previous, xor(state[0], message))
        return new

    def initial(nonce):
        k0, k1, n0, n1 = key[:16], key[16:], nonce[:16], nonce[16:]
        state = [lanes(x) for x in (xor(k0, n0), xor(k1, n1), c1, c0, xor(k0, c0), xor(k1, c1))]
        context = b"".join(bytes([i, degree - 1]) + bytes(14) for i in range(degree))
        for _ in range(4):
            for word in (k0, k1, xor(k0, n0), xor(k1, n1)):
                state[3] = xor(state[3], context)
                state[5] = xor(state[5], context)
                state = update(state, lanes(word))
        return state

    def open_(nonce, sealed, associated):
        body, tag = sealed[:-16], sealed[-16:]
        state = initial(b"strongrm" + nonce)

        def padded(data):
            return data + bytes(-len(data) % rate)

        for i in range(0, len(padded(associated)), rate):
            state = update(state, padded(associated)[i : i + rate])
        plain = b""
        for i in range(0, len(body), rate):
            z = xor(xor(state[1], state[4]), xor(state[5], both(state[2], state[3])))
            chunk = body[i : i + rate]
            opened = xor(chunk, z)
            plain += opened
            state = update(state, padded(opened))
        lengths = struct.pack("<QQ", 8 * len(associated), 8 * len(body))
        t = xor(state[3], lanes(lengths))
        for _ in range(7):
            state = update(state, t)
        mixed = state[0]
        for word in state[1:]:
            mixed = xor(mixed, word)
        found = bytes(16)
        for i in range(0, rate, 16):
            found = xor(found, mixed[i : i + 16])
        if not hmac.compare_digest(found, tag):
            raise InvalidTag
        return plain

    return open_


def counter_poly1305(name):
    """Suites of section 3.1, with the ciphers that compute the document's vectors: very slow."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../docs/format"))
    import suites

    def of_key(key):
        commitment = suites.hkdf(key, f"{name} commitment\0".encode())
        sessions = {}

        def ciphers(session):
            if session not in sessions:
                info = [f"{name} {cipher}\0".encode() + session for cipher in suites.SUITES[name]]
                made = zip(suites.SUITES[name], info)
                sessions[session] = [suites.CIPHERS[cipher](suites.hkdf(key, info)) for cipher, info in made]
            return sessions[session]

        def open_(nonce, sealed, associated):
            body, tag = sealed[:-16], sealed[-16:]
            stream = bytearray()
            for counter in range(2 + -(-len(body) // 16)):
                mask = bytes(16)
                for encrypt in ciphers(nonce[:12]):
                    mask = xor(mask, encrypt(nonce[12:] + counter.to_bytes(4, "big")))
                stream += mask
            lengths = struct.pack("<QQ", len(associated), len(body))
            inner = suites.poly1305(stream[:32], suites.padded(associated) + suites.padded(body) + lengths)
            found = hashlib.sha256(commitment + nonce + associated + inner).digest()[:16]
            if not hmac.compare_digest(found, tag):
                raise InvalidTag
            return xor(body, stream[32:])

        return open_

    return of_key


SUITES = {
    1: xaes_256_gcm,
    2: xchacha20_poly1305,
    3: lambda key: aegis_256x(key, 2),
    4: lambda key: aegis_256x(key, 4),
    5: counter_poly1305("serpent-256-poly1305"),
    6: counter_poly1305("cascade"),
}


# Section 2: keys.


def siv_open(key, associated, sealed):
    try:
        return AESSIV(key).decrypt(sealed, [associated])
    except InvalidTag:
        raise Damaged("AES-SIV does not open") from None


class Keys:
    """All keys of a vault, by their labels."""

    def __init__(self, root, vault):
        self.root, self.vault = root, vault

    def key(self, label, length=32, generation=1):
        info = b"strongroom " + label + b"\0" + struct.pack("<I", generation)
        return HKDF(hashes.SHA256(), length, self.vault, info).derive(self.root)

    def mac(self, *parts):
        return hmac.new(self.key(b"records"), b"".join(parts), "sha256").digest()[:16]


# Section 8: the vault header.


class Header:
    def __init__(self, data):
        if len(data) != 16384 or data[:8] != b"STRONGRM":
            raise Damaged("no vault header")
        (self.version,) = struct.unpack_from("<I", data, 8)
        if self.version != VERSION:
            raise Damaged(f"format version {self.version}")
        self.data = data
        self.suite, shift = data[12], data[13]
        self.block_size = 1 << shift
        self.shift = shift
        self.base32 = bool(data[14] & 1)
        self.vault = data[16:32]
        self.sequence, self.generation, self.generation_min = struct.unpack_from("<QII", data, 32)
        self.open_sessions = any(data[96 + 96 * i + 12] for i in range(16))

    def unlock(self, password):
        """The keys, if the password opens a slot and the header is authentic."""
        for at in range(1632, 1632 + 12 * 512, 512):
            slot = self.data[at : at + 512]
            if slot[0] != 1:
                continue
            memory, passes, lanes = struct.unpack_from("<III", slot, 4)
            salt = slot[16:48]
            derived = argon2.low_level.hash_secret_raw(
                password, salt, passes, memory, lanes, 96, argon2.low_level.Type.ID, 0x13
            )
            wrapping, committing = derived[:64], derived[64:]
            commitment = hmac.new(committing, b"commit" + salt, "sha256").digest()
            if not hmac.compare_digest(commitment, slot[120:152]):
                continue
            context = self.data[:32] + self.data[48:56] + slot[:120]
            keys = Keys(siv_open(wrapping, context, slot[152:200]), self.vault)
            found = hmac.new(keys.key(b"header"), self.data[:16352], "sha256").digest()
            if not hmac.compare_digest(found, self.data[16352:]):
                raise Damaged("the header's MAC")
            return keys
        raise Damaged("no slot opens with the password")


# Section 4: stored files.


class StoredFile:
    """A stored file with contents."""

    def __init__(self, vault, descriptor):
        self.vault, self.descriptor = vault, descriptor
        clear = self.bytes(0, 72)
        self.file_id = clear[16:32]
        (self.generation,) = struct.unpack_from("<I", clear, 8)
        if not vault.header.generation_min <= self.generation <= vault.header.generation:
            raise Damaged("key generation")
        self.pages = vault.suite(vault.keys.key(b"pages", generation=self.generation))
        self.blocks = vault.suite(vault.keys.key(b"blocks", generation=self.generation))
        self.cache = {}
        header, _ = self.page(1, 0, 0)
        fields = header[3912:]
        self.length, self.flags = struct.unpack_from("<QI", fields, 0)
        self.roots = [fields[12 + 7 * i : 19 + 7 * i] for i in range(3)]
        self.home, self.home_before, self.birth, self.directory = (
            fields[52:68],
            fields[68:84],
            fields[84:96],
            fields[96:112],
        )
        self.node0 = header
        if os.fstat(descriptor).st_size != self.stored_length():
            raise Damaged("stored length")

    def bytes(self, offset, length):
        return os.pread(self.descriptor, length, offset)

    @property
    def linked(self):
        return bool(self.flags & 1)

    def maps(self, group):
        """Map pages that stand before a group's node."""
        if group == 0:
            return 0
        count = group // 512 + 1
        if group >= 512:
            count += group // 2**18 + 1
        if group >= 2**18:
            count += 1
        return count

    def node_offset(self, group):
        return group * (PAGE + GROUP * self.vault.header.block_size) + PAGE * self.maps(group)

    def map_offset(self, kind, number):
        """Where a map of kind 3, 4 or 5 stands: right before what it is the first to lead to."""
        if kind == 3:
            return self.node_offset(512 * number if number else 1) - PAGE
        if kind == 4:
            return self.map_offset(3, 512 * number if number else 1) - PAGE
        return self.map_offset(4, 1) - PAGE

    def block_offset(self, block):
        group, index = divmod(block, GROUP)
        return self.node_offset(group) + PAGE + index * self.vault.header.block_size

    def stored_length(self):
        if self.length == 0:
            return PAGE
        last = (self.length - 1) // self.vault.header.block_size
        return self.block_offset(last) + self.length - last * self.vault.header.block_size

    def page(self, kind, number, offset):
        """A page's sealed part in clear, and its tag."""
        page = self.bytes(offset, PAGE)
        if len(page) != PAGE or page[:4] != b"SRpg" or page[4] != kind or page[5] != VERSION:
            raise Damaged("a page")
        header = self.vault.header
        if page[6] != header.suite or page[7] != header.shift or page[16:32] != self.file_id:
            raise Damaged("a page of another file")
        if struct.unpack_from("<I", page, 8)[0] != self.generation or any(page[12:16]):
            raise Damaged("a page of another generation")
        associated = page[:56] + struct.pack("<Q", number)
        nonce, tag = page[32:56], page[56:72]
        try:
            return self.pages(nonce, page[72:] + tag, associated), tag
        except InvalidTag:
            raise Damaged("a page does not open") from None

    def vouched(self, kind, number, token):
        """A page that a token vouches for; None where there is none."""
        if not any(token):
            return None
        if (kind, number) not in self.cache:
            offset = self.node_offset(number) if kind == 2 else self.map_offset(kind, number)
            opened, tag = self.page(kind, number, offset)
            if bytes([tag[0] | 1]) + tag[1:7] != token:
                raise Damaged("a page of another time")
            self.cache[kind, number] = opened
        return self.cache[kind, number]

    def slot(self, map_page, slot):
        return bytes(7) if map_page is None else map_page[8 + 7 * slot : 15 + 7 * slot]

    def node(self, group):
        if group == 0:
            return self.node0
        k = group // 512
        if k == 0:
            token = self.roots[0]
        else:
            j = k // 512
            if j == 0:
                middle = self.vouched(4, 0, self.roots[1])
            else:
                root = self.vouched(5, 0, self.roots[2])
                middle = self.vouched(4, j, self.slot(root, j))
            token = self.slot(middle, k % 512)
        return self.vouched(2, group, self.slot(self.vouched(3, k, token), group % 512))

    def block_entry(self, index):
        """A block's entry; None for a hole."""
        node = self.node(index // GROUP)
        entry = node and node[200 + 29 * (index % GROUP) :][:29]
        return entry if entry and entry[28] else None

    def block(self, index):
        size = self.vault.header.block_size
        length = min(size, self.length - index * size)
        entry = self.block_entry(index)
        if entry is None:
            return bytes(length)
        node = self.node(index // GROUP)
        session = node[8 + 12 * (entry[28] - 1) :][:12]
        associated = struct.pack(
            "<4sBBHI16sQ", b"SRbk", self.vault.header.suite, self.vault.header.shift, 0, self.generation, self.file_id, index
        )
        at = self.block_offset(index)
        try:
            return self.blocks(session + entry[:12], self.bytes(at, length) + entry[12:28], associated)
        except InvalidTag:
            raise Damaged(f"block {index} does not open") from None

    def count(self):
        return -(-self.length // self.vault.header.block_size)

    def content(self):
        return b"".join(self.block(index) for index in range(self.count()))

    def data(self):
        """Offset and SHA-256 of each block that is no hole."""
        size = self.vault.header.block_size
        groups = (group for group in range(-(-self.count() // GROUP)) if self.node(group))
        blocks = (block for group in groups for block in range(group * GROUP, group * GROUP + GROUP))
        stored = (block for block in blocks if self.block_entry(block))
        return {str(block * size): hashlib.sha256(self.block(block)).hexdigest() for block in stored}


class SpecialRecord:
    """A symlink, FIFO, socket or device node."""

    KINDS = {1: "symlink", 2: "fifo", 3: "socket", 4: "character device", 5: "block device"}

    def __init__(self, vault, data):
        if data[:4] != b"SRsp" or data[4] != VERSION or any(data[5:8]):
            raise Damaged("no special record")
        head, self.file_id = data[:40], data[24:40]
        key = vault.keys.key(b"special records", 64)
        slots = []
        for number, at in ((0, 40), (1, 512)):
            try:
                slots.append(siv_open(key, b"special slot" + bytes([number]) + head, data[at : at + 88]))
            except Damaged:
                pass
        if not slots:
            raise Damaged("no slot of a special record opens")
        if len({slot[8:9] + slot[10:24] + slot[56:72] for slot in slots}) != 1:
            raise Damaged("the slots of a special record differ")
        newest = max(slots, key=lambda slot: slot[:8][::-1])
        self.kind = self.KINDS[newest[8]]
        self.linked = bool(newest[9] & 1)
        self.homes = [slot[24:40] for slot in slots]
        (length,) = struct.unpack_from("<H", newest, 10)
        (self.device,) = struct.unpack_from("<Q", newest, 16)
        self.target = None
        if self.kind == "symlink":
            body = data[600:]
            if length > 3463:
                with open(os.path.join(vault.path, ".strongroom/links", self.file_id.hex()), "rb") as links:
                    body = links.read()
            if body[:16] != newest[56:72] or len(body) != length + 32:
                raise Damaged("the body of a symlink")
            self.target = siv_open(key, b"special body" + self.file_id, body)[16:]


# Section 5: names, directories, attributes.


class Vault:
    def __init__(self, path, password):
        self.path = path
        headers = []
        for copy in (0, 1):
            try:
                with open(os.path.join(path, f".strongroom/header.{copy}"), "rb") as file:
                    headers.append(Header(file.read()))
            except OSError:
                pass
        self.header = max(headers, key=lambda header: header.sequence)
        self.keys = self.header.unlock(password)
        self.suite = SUITES[self.header.suite]
        self.entries, self.damaged = {}, {}

    def unspelled(self, text):
        text = text.decode("ascii")
        if self.header.base32:
            return base64.b32hexdecode(text.upper() + "=" * (-len(text) % 8))
        if text.startswith("~"):
            text = "-" + text[1:]
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    def name(self, directory, stored, at):
        if stored.startswith(b"~") and len(stored) == 33:
            with open(os.path.join(at, b".n" + stored), "rb") as file:
                sealed = file.read()
            hashed = hashlib.sha256(sealed).digest()[: 20 if self.header.base32 else 24]
            if hashed != self.unspelled(stored[1:]):
                raise Damaged("a long name")
        else:
            sealed = self.unspelled(stored)
        return siv_open(self.keys.key(b"names", 64), directory, sealed)

    def home(self, directory, name):
        return self.keys.mac(b"home", directory, name)

    def directory_id(self, path, parent, name):
        """The id of a directory, by its record, whose home is its place."""
        found = set()
        for stored in os.listdir(os.path.join(path, b".id")):
            try:
                record = self.unspelled(stored)
            except ValueError:
                continue
            if len(record) != 48:
                continue
            directory, home, mac = record[:16], record[16:32], record[32:]
            if mac != self.keys.mac(b"directory", directory, home):
                continue
            if home == self.keys.mac(b"directory home", parent, name):
                found.add(directory)
        if len(found) != 1:
            raise Damaged("a directory's record")
        return found.pop()

    def attributes(self, path, inode):
        key = self.keys.key(b"xattrs", 64)
        found = {}
        for stored in os.listxattr(path, follow_symlinks=False):
            if not stored.startswith("user.strongroom."):
                continue
            sealed = self.unspelled(stored[len("user.strongroom.") :].encode())
            name = siv_open(key, b"xattr name" + inode, sealed)
            value = os.getxattr(path, stored, follow_symlinks=False)
            value = siv_open(key, b"xattr value" + inode + name, value)[16:]
            found[name.decode("utf-8", "surrogateescape")] = value.hex()
        return found

    def entry(self, path, directory, name):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            inode = self.directory_id(path, directory, name)
            return {"kind": "directory", "attributes": self.attributes(path, inode)}, inode
        if not stat.S_ISREG(mode):
            raise Damaged("an inode of nobody")
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return self.regular(path, descriptor, directory, name), None
        finally:
            os.close(descriptor)

    def regular(self, path, descriptor, directory, name):
        data = os.pread(descriptor, PAGE, 0)
        if 1 <= len(data) < PAGE:
            record = SpecialRecord(self, data)
            if not record.linked and self.home(directory, name) not in record.homes:
                raise Damaged("a special record under another name")
            told = {"kind": record.kind, "attributes": self.attributes(path, record.file_id)}
            if record.target is not None:
                told["target"] = record.target.decode("utf-8", "surrogateescape")
            if record.kind.endswith("device"):
                told["device"] = record.device
            return told
        file = StoredFile(self, descriptor)
        if not file.linked and self.home(directory, name) not in (file.home, file.home_before):
            raise Damaged("a file under another name")
        told = {"kind": "file", "length": file.length, "attributes": self.attributes(path, file.file_id)}
        if file.length <= WHOLE:
            told["sha256"] = hashlib.sha256(file.content()).hexdigest()
        else:
            told["data"] = file.data()
        return told

    def walk(self, path, directory, plain):
        for stored in sorted(os.listdir(path)):
            if stored.startswith(b"."):
                continue
            at = os.path.join(path, stored)
            shown = plain + "/?" + stored.decode("ascii", "backslashreplace")
            try:
                name = self.name(directory, stored, path)
                shown = plain + "/" + name.decode("utf-8", "surrogateescape")
                self.entries[shown], below = self.entry(at, directory, name)
            except (Damaged, InvalidTag, OSError, ValueError) as error:
                self.damaged[shown] = str(error)
                continue
            if below is not None:
                self.walk(at, below, shown)

    def read(self):
        root = self.keys.mac(b"root directory")
        self.walk(os.fsencode(self.path), root, "")
        return {"entries": self.entries, "damaged": self.damaged}


def main():
    vault = Vault(sys.argv[1], sys.argv[2].encode())
    if vault.header.open_sessions:
        sys.exit("the vault did not end cleanly")
    print(json.dumps(vault.read(), indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
