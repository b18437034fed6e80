#!/usr/bin/env bash
# Makes a golden vault: make.sh PROGRAM SUITE BLOCK_SIZE NAME [damaged]
#
# NAME.tar.xz is a vault with every kind of inode, and NAME.json what it holds, as reader.py reads it. Needs root, FUSE,
# and Debian's attr, python3-cryptography and python3-argon2. A vault that is kept here is never made again: programs
# have to open it for as long as they open its format.
set -euo pipefail
program=$(realpath "$1") suite=$2 block_size=$3 name=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'mountpoint -q "$work/m" && "$program" umount "$work/m"; rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state
cd "$work"
mkdir m
printf 'golden password\n' >password
"$program" init vault --password-file password --recovery-out none --suite "$suite" --block-size "$block_size" \
  --kdf-memory 8MiB --kdf-time 1 --label golden
"$program" mount vault m --password-file password

# Content that anybody can make again: a counter's decimal numbers.
seq 1000000 >numbers
numbers() { head -c "$1" numbers; }
numbers 0 >m/empty
numbers 1 >m/one-byte
numbers "$block_size" >m/one-block
numbers $((3 * block_size + 17)) >m/blocks
numbers 100 >m/grown && truncate -s $((5 * block_size + 3)) m/grown
numbers $((2 * block_size)) >m/cut && truncate -s 33 m/cut
# Blocks behind each kind of map page.
numbers 100 >m/sparse
for offset in 200000000 $((160 * 1024 * 1024 * 1024)); do
  numbers 50 | dd of=m/sparse bs=1 seek="$offset" conv=notrunc status=none
done
mkdir -p m/directory/below m/empty-directory
numbers 200 >m/directory/below/file
numbers 300 >"m/$(printf 'long%.0s' {1..60})"
numbers 10 >'m/überall 文件'
ln -s ../target/that/is/nowhere m/symlink
ln -s "$(printf 'far/%.0s' {1..1000})" m/long-symlink
mkfifo m/directory/fifo
mknod m/null c 1 3
mknod m/block b 7 200
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("m/socket")'
ln m/blocks m/directory/link
ln m/symlink m/directory/linked-symlink
mv m/directory/below m/moved
mv m/one-block m/moved/renamed
mv m/null m/moved/null
setfattr -n user.comment -v 'of a file' m/blocks
setfattr -n user.comment -v 'of a directory' m/moved
setfattr -n trusted.of-a-symlink -v value -h m/symlink
# A name whose spelling would begin with `-`.
number=0
until find vault -regextype posix-extended -regex '.*/~([^/]{22,31}|[^/]{33,})' | grep -q .; do
  rm -f "m/option $number"
  number=$((number + 1))
  numbers 5 >"m/option $number"
done
touch -h -d '2001-02-03T04:05:06Z' m/cut m/symlink m/moved
"$program" umount m

if [[ ${5-} == damaged ]]; then
  # The last bit of every stored file that has blocks, and the record of one directory.
  find vault -path vault/.strongroom -prune -o -type f -size +4096c -size -200M -print0 |
    while IFS= read -r -d '' file; do
      python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-1, 2); b = f.read(1); f.seek(-1, 2); f.write(bytes([b[0] ^ 1]))' "$file"
    done
  find vault -mindepth 3 -maxdepth 3 -path '*/.id/*' -print -quit | xargs rm
fi

/usr/bin/python3 "$here/reader.py" vault 'golden password' >"$here/$name.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --xattrs --xattrs-include='user.strongroom.*' --sparse -c vault |
  xz -9e >"$here/$name.tar.xz"
ls -l "$here/$name".*
