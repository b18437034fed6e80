#!/bin/bash -eu
# Builds every fuzz target into $OUT, from the sources in $SRC/strongroom: each with the corpus that it begins with
# and the longest input that makes sense.
cd "$SRC/strongroom"

# As `cargo xtask fuzz` has it: a vault header with room to spare.
longest=16384

cargo fuzz build --release --debug-assertions

# The beginnings of what vaults and disks of every kind have stored.
scratch=$(mktemp -d)
mkdir "$scratch/stored" "$scratch/seeds"
for archive in crates/cli/tests/golden/*.tar.xz; do
  tar -xJf "$archive" -C "$scratch/stored"
done
find "$scratch/stored" -type f -print0 | while IFS= read -r -d '' file; do
  head -c "$longest" "$file" >"$scratch/seed"
  mv "$scratch/seed" "$scratch/seeds/$(sha256sum <"$scratch/seed" | cut -c 1-16)"
done
(cd "$scratch/seeds" && find . -type f | sort | zip -q -X "$scratch/seeds.zip" -@)

programs=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release
for source in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$source" .rs)
  cp "$programs/$name" "$OUT/"
  cp "$scratch/seeds.zip" "$OUT/${name}_seed_corpus.zip"
  printf '[libfuzzer]\nmax_len = %s\n' "$longest" >"$OUT/$name.options"
done
rm -rf "$scratch"
