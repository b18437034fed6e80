#!/usr/bin/env bash
# Makes the golden disks: make-disks.sh PROGRAM
#
# disks.tar.xz holds LUKS1 and LUKS2 images, and disks.json says what each is. Needs Debian's cryptsetup-bin, qemu-utils
# and libnbd-bin. Disks that are kept here are never made again: programs have to open them for as long as they open
# LUKS.
#
# cryptsetup makes what it can without the kernel: headers of both versions, tokens, unbound slots, and the data of AES.
# QEMU makes LUKS1 with Serpent and Twofish. The others are ours: one header for XTS and one for CBC, in which the name
# of the data's cipher is exchanged, so that 24 images have two key slots among them and are small.
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir disks
printf 'golden password' >password
printf 'another secret' >other
# Content that anybody can make again: a counter's decimal numbers.
data=$((8 * 1024))
seq 10000 >all
head -c "$data" all >numbers
offset=$((16 * 1024 * 1024))
cheap='--pbkdf pbkdf2 --pbkdf-force-iterations 1000'
ours='--kdf pbkdf2 --kdf-time 1000'
entries=()

# kept NAME MAKER VERSION CIPHER SECTOR KEY_BITS [HEADER]: notes an image that lies in disks/NAME.
kept() {
  entries+=("$(printf '{"image": "%s", "maker": "%s", "version": %d, "cipher": "%s", "sector": %d, "key_bits": %d, "header": %s}' \
    "$1" "$2" "$3" "$4" "$5" "$6" "${7:-null}")")
}

# fill IMAGE: writes the content through the program.
fill() {
  "$program" disk open "$1" --nbd "$work/socket" --password-file password >/dev/null
  nbdcopy --flush numbers "nbd+unix:///?socket=$work/socket"
  # The client that has just ended may be connected for a moment.
  until "$program" disk close "$work/socket" >/dev/null 2>&1; do sleep 0.05; done
}

# recipher IMAGE CIPHER: another cipher of the data, in both copies of a LUKS2 header.
recipher() {
  /usr/bin/python3 - "$1" "$2" <<'PYTHON'
import hashlib, json, sys
image, cipher = sys.argv[1:]
with open(image, "r+b") as file:
    at = 0
    for _ in range(2):
        file.seek(at)
        head = bytearray(file.read(4096))
        size = int.from_bytes(head[8:16], "big")
        document = json.loads(file.read(size - 4096).rstrip(b"\0"))
        for segment in document["segments"].values():
            segment["encryption"] = cipher
        area = json.dumps(document, separators=(",", ":")).encode().ljust(size - 4096, b"\0")
        head[448:512] = bytes(64)
        head[448:480] = hashlib.sha256(bytes(head) + area).digest()
        file.seek(at)
        file.write(bytes(head) + area)
        at = size
PYTHON
}

# spare IMAGE: zeros where a header has no key slots. Programs fill that with random bytes, which need not be kept.
spare() {
  /usr/bin/python3 - "$1" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "r+b") as file:
    head = file.read(592)
    if int.from_bytes(head[6:8], "big") == 1:
        key_bytes = int.from_bytes(head[108:112], "big")
        slots = [struct.unpack(">II32sII", head[at : at + 48]) for at in range(208, 592, 48)]
        used = [(at * 512, at * 512 + key_bytes * stripes) for on, _, _, at, stripes in slots if on == 0x00AC71F3]
        start, end = 4096, min(int.from_bytes(head[104:108], "big") * 512, 2 << 20)
    else:
        start = 2 * int.from_bytes(head[8:16], "big")
        file.seek(4096)
        document = json.loads(file.read(start // 2 - 4096).rstrip(b"\0"))
        areas = [slot["area"] for slot in document["keyslots"].values()]
        used = [(int(area["offset"]), int(area["offset"]) + int(area["size"])) for area in areas]
        end = start + int(document["config"]["keyslots_size"])
    for first, last in sorted(used) + [(end, end)]:
        file.seek(start)
        file.write(bytes(max(0, first - start)))
        start = max(start, last)
PYTHON
  fallocate --dig-holes "$1"
}

# Every cipher and mode.
for mode in xts cbc; do
  bits=$([[ $mode == xts ]] && echo 512 || echo 256)
  rm -f first
  "$program" disk format first --size $((offset + data)) --yes $ours --cipher "aes-$mode-plain64" --key-size "$bits" \
    --sector-size 512 --password-file password >/dev/null
  spare first
  for cipher in aes serpent twofish camellia; do
    for iv in plain plain64 essiv:sha256; do
      name=ours-$cipher-$mode-${iv%:*}
      cp --sparse=always first "disks/$name"
      recipher "disks/$name" "$cipher-$mode-$iv"
      fill "disks/$name"
      kept "$name" ours 2 "$cipher-$mode-$iv" 512 "$bits"
    done
  done
done

# A header of cryptsetup's with sectors of 4096 bytes and Argon2id, a further slot, one that is bound to nothing, and
# tokens of two kinds.
truncate -s $((offset + data)) disks/cryptsetup-luks2
cryptsetup luksFormat --type luks2 --batch-mode --pbkdf argon2id --pbkdf-memory 128 --pbkdf-force-iterations 4 \
  --pbkdf-parallel 1 --sector-size 4096 --cipher aes-xts-plain64 --key-size 256 --label golden disks/cryptsetup-luks2 password
cryptsetup luksAddKey --batch-mode --pbkdf argon2i --pbkdf-memory 64 --pbkdf-force-iterations 4 --pbkdf-parallel 1 \
  --key-file password disks/cryptsetup-luks2 other
cryptsetup luksAddKey --batch-mode $cheap --unbound --key-size 128 disks/cryptsetup-luks2 <(printf 'of nothing')
cryptsetup token add --key-description golden --key-slot 0 disks/cryptsetup-luks2
printf '{"type": "of-a-program-nobody-has", "keyslots": [], "anything": {"at": ["all"]}}' |
  cryptsetup token import disks/cryptsetup-luks2
spare disks/cryptsetup-luks2
fill disks/cryptsetup-luks2
kept cryptsetup-luks2 cryptsetup 2 aes-xts-plain64 4096 256

# The same with the first copy of the header damaged, and with the second.
for copy in 1 2; do
  cp --sparse=always disks/cryptsetup-luks2 "disks/damaged-copy-$copy"
  printf 'damaged by hand' |
    dd of="disks/damaged-copy-$copy" bs=1 seek=$(((copy - 1) * 16384 + 4096 + 20)) conv=notrunc status=none
  kept "damaged-copy-$copy" cryptsetup 2 aes-xts-plain64 4096 256
done

# Encrypted by cryptsetup, with the header in a file of its own.
for cipher in aes-xts-plain64:512 aes-cbc-essiv:sha256:256 aes-cbc-plain64:128; do
  bits=${cipher##*:} cipher=${cipher%:*}
  name=detached-${cipher%:*}
  cp numbers "disks/$name"
  cryptsetup reencrypt --encrypt --type luks2 --header "disks/$name.header" --force-offline-reencrypt $cheap \
    --cipher "$cipher" --key-size "$bits" --sector-size 512 --batch-mode --key-file password "disks/$name" >/dev/null
  cmp -s numbers "disks/$name" && exit 1
  spare "disks/$name.header"
  kept "$name" cryptsetup 2 "$cipher" 512 "$bits" "\"$name.header\""
done

# LUKS1: a header of cryptsetup's for each hash, and data of QEMU's.
for hash in sha1 sha256 sha512 ripemd160 whirlpool; do
  name=luks1-$hash
  truncate -s $((2 * 1024 * 1024 + data)) "disks/$name"
  cryptsetup luksFormat --type luks1 --batch-mode --hash "$hash" --pbkdf-force-iterations 1000 --cipher aes-cbc-plain64 \
    --key-size 128 "disks/$name" password
  spare "disks/$name"
  fill "disks/$name"
  kept "$name" cryptsetup 1 aes-cbc-plain64 512 128
done
for cipher in serpent-128:xts:plain64 twofish-128:xts:plain64 serpent-128:cbc:plain64 aes-128:cbc:essiv; do
  IFS=: read -r algorithm mode iv <<<"$cipher"
  name=qemu-$algorithm-$mode
  hash=$([[ $iv == essiv ]] && echo ',ivgen-hash-alg=sha256' || true)
  # It gives up where it saw no CPU time pass while it timed its KDF.
  until qemu-img convert -q -f raw -O luks --object secret,id=key,file=password \
    -o "key-secret=key,iter-time=10,cipher-alg=$algorithm,cipher-mode=$mode,ivgen-alg=$iv$hash" numbers "disks/$name"; do
    rm -f "disks/$name"
  done
  spare "disks/$name"
  named=${algorithm%-*}-$mode-$iv
  kept "$name" qemu 1 "${named/%essiv/essiv:sha256}" 512 "$([[ $mode == xts ]] && echo 256 || echo 128)"
done

{
  printf '{\n  "length": %d,\n  "sha256": "%s",\n  "disks": [\n' "$data" "$(sha256sum numbers | cut -d' ' -f1)"
  (IFS=$'\n'; echo "${entries[*]}" | sed 's/^/    /; $!s/$/,/')
  printf '  ]\n}\n'
} >"$here/disks.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --sparse -c disks | xz -9e >"$here/disks.tar.xz"
ls -l "$here"/disks.*
