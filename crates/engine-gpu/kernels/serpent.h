/* Serpent (Anderson, Biham, Knudsen 1998), which is bitsliced by design: one work-item, one block in its four words.
   BOX0 to BOX7 and UNBOX0 to UNBOX7 are made from the published tables. Shorter keys come padded. */
#define SERPENT_BLOCKS 1u
#define SERPENT_SCHEDULE 140u /* the key's eight words, then 33 round keys of four */

#define SERPENT_MIX(a, b, c, d) \
  a = ROTL(a, 13); c = ROTL(c, 3); b ^= a ^ c; d ^= c ^ (a << 3); b = ROTL(b, 1); d = ROTL(d, 7); \
  a ^= b ^ d; c ^= d ^ (b << 7); a = ROTL(a, 5); c = ROTL(c, 22);
#define SERPENT_UNMIX(a, b, c, d) \
  c = ROTL(c, 10); a = ROTL(a, 27); c ^= d ^ (b << 7); a ^= b ^ d; d = ROTL(d, 25); b = ROTL(b, 31); \
  d ^= c ^ (a << 3); b ^= a ^ c; c = ROTL(c, 29); a = ROTL(a, 19);

#define SERPENT_ADD(i) { u32 k_[4]; LOAD4(k + 4u * (i), k_); a ^= k_[0]; b ^= k_[1]; c ^= k_[2]; d ^= k_[3]; }

DEVICE void serpent_encrypt_block(u32 *x, GLOBAL const u32 *rk) {
  GLOBAL const u32 *k = rk + 8u;
  u32 a = x[0], b = x[1], c = x[2], d = x[3];
  ROLL
  for (u32 r = 0u; r < 32u; r += 8u) {
    SERPENT_ADD(r) BOX0(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 1u) BOX1(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 2u) BOX2(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 3u) BOX3(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 4u) BOX4(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 5u) BOX5(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 6u) BOX6(a, b, c, d) SERPENT_MIX(a, b, c, d)
    SERPENT_ADD(r + 7u) BOX7(a, b, c, d)
    if (r != 24u) { SERPENT_MIX(a, b, c, d) }
  }
  SERPENT_ADD(32u)
  x[0] = a; x[1] = b; x[2] = c; x[3] = d;
}
DEVICE void serpent_decrypt_block(u32 *x, GLOBAL const u32 *rk) {
  GLOBAL const u32 *k = rk + 8u;
  u32 a = x[0], b = x[1], c = x[2], d = x[3];
  SERPENT_ADD(32u)
  ROLL
  for (u32 n = 32u; n != 0u; n -= 8u) {
    u32 r = n - 8u;
    if (r != 24u) { SERPENT_UNMIX(a, b, c, d) }
    UNBOX7(a, b, c, d) SERPENT_ADD(r + 7u) SERPENT_UNMIX(a, b, c, d)
    UNBOX6(a, b, c, d) SERPENT_ADD(r + 6u) SERPENT_UNMIX(a, b, c, d)
    UNBOX5(a, b, c, d) SERPENT_ADD(r + 5u) SERPENT_UNMIX(a, b, c, d)
    UNBOX4(a, b, c, d) SERPENT_ADD(r + 4u) SERPENT_UNMIX(a, b, c, d)
    UNBOX3(a, b, c, d) SERPENT_ADD(r + 3u) SERPENT_UNMIX(a, b, c, d)
    UNBOX2(a, b, c, d) SERPENT_ADD(r + 2u) SERPENT_UNMIX(a, b, c, d)
    UNBOX1(a, b, c, d) SERPENT_ADD(r + 1u) SERPENT_UNMIX(a, b, c, d)
    UNBOX0(a, b, c, d) SERPENT_ADD(r)
  }
  x[0] = a; x[1] = b; x[2] = c; x[3] = d;
}

#define SERPENT_SUBKEY(i, BOX) { \
  GLOBAL u32 *k = s + 8u + 4u * (i); \
  u32 a = k[0], b = k[1], c = k[2], d = k[3]; \
  BOX(a, b, c, d) \
  k[0] = a; k[1] = b; k[2] = c; k[3] = d; }
DEVICE void serpent_expand_key(GLOBAL const u32 *key, GLOBAL u32 *s) {
  ROLL
  for (u32 i = 0u; i < 8u; i++) s[i] = key[i];
  ROLL
  for (u32 i = 8u; i < 140u; i++) s[i] = ROTL(s[i - 8u] ^ s[i - 5u] ^ s[i - 3u] ^ s[i - 1u] ^ 0x9e3779b9u ^ (i - 8u), 11);
  ROLL
  for (u32 r = 0u; r < 32u; r += 8u) {
    SERPENT_SUBKEY(r, BOX3) SERPENT_SUBKEY(r + 1u, BOX2) SERPENT_SUBKEY(r + 2u, BOX1) SERPENT_SUBKEY(r + 3u, BOX0)
    SERPENT_SUBKEY(r + 4u, BOX7) SERPENT_SUBKEY(r + 5u, BOX6) SERPENT_SUBKEY(r + 6u, BOX5) SERPENT_SUBKEY(r + 7u, BOX4)
  }
  SERPENT_SUBKEY(32u, BOX3)
}

EXPAND_KERNEL(serpent_expand, SERPENT_SCHEDULE, serpent_expand_key(key, s))
BLOCK_KERNEL(serpent_encrypt, SERPENT_BLOCKS, SERPENT_SCHEDULE, serpent_encrypt_block(x, rk))
BLOCK_KERNEL(serpent_decrypt, SERPENT_BLOCKS, SERPENT_SCHEDULE, serpent_decrypt_block(x, rk))
