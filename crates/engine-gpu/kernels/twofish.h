/* Twofish (Schneier and others: "Twofish: A 128-Bit Block Cipher", 1998): one work-item, four blocks. Both arguments of g
   of each block are eight words, and their bytes are substituted together in planes, where byte c of a plane holds
   byte c of each word. TABLE0 to TABLE3 are made from the published tables of q0 and q1: a lane takes those of q1
   where its bit of M is set. */
#define TWOFISH_BLOCKS 4u
#define TWOFISH_SCHEDULE 72u /* 40 subkeys, then for each layer of S-boxes the eight planes that are XORed behind it */

/* Section 4.3.5. The high nibble is in planes 4 to 7. */
#define TWOFISH_NIBBLES(q) { \
  u32 a0 = q[4] ^ q[0], a1 = q[5] ^ q[1], a2 = q[6] ^ q[2], a3 = q[7] ^ q[3]; \
  u32 b0 = q[4] ^ q[1], b1 = q[5] ^ q[2], b2 = q[6] ^ q[3], b3 = q[7] ^ q[0] ^ q[4]; \
  q[4] = a0; q[5] = a1; q[6] = a2; q[7] = a3; q[0] = b0; q[1] = b1; q[2] = b2; q[3] = b3; }
DEVICE void twofish_q(u32 *q, u32 M) {
  TWOFISH_NIBBLES(q)
  TABLE0(q[4], q[5], q[6], q[7], M)
  TABLE1(q[0], q[1], q[2], q[3], M)
  TWOFISH_NIBBLES(q)
  TABLE2(q[4], q[5], q[6], q[7], M)
  TABLE3(q[0], q[1], q[2], q[3], M)
  u32 t;
  t = q[0]; q[0] = q[4]; q[4] = t; t = q[1]; q[1] = q[5]; q[5] = t;
  t = q[2]; q[2] = q[6]; q[6] = t; t = q[3]; q[3] = q[7]; q[7] = t;
}
/* The matrix MDS of section 4.2. Its elements are 01, 5b = 1 + x^-2 and ef = 1 + x^-1 + x^-2; `one` is added
   one column on, and so on. */
DEVICE void twofish_matrix(u32 *y) {
  u32 d[8] = { y[1], y[2], y[3] ^ y[0], y[4], y[5] ^ y[0], y[6] ^ y[0], y[7], y[0] };
  u32 e[8] = { d[1], d[2], d[3] ^ d[0], d[4], d[5] ^ d[0], d[6] ^ d[0], d[7], d[0] };
  UNROLL
  for (int i = 0; i < 8; i++) {
    u32 none = y[i] ^ (e[i] & 0xff00ff00u) ^ (d[i] & 0x0000ff00u);
    u32 one = y[i] ^ e[i] ^ (d[i] & 0x00ff0000u);
    u32 two = y[i] ^ (e[i] & 0x00ff00ffu) ^ (d[i] & 0x000000ffu);
    u32 three = y[i] ^ e[i] ^ d[i];
    y[i] = none ^ ROTL(one, 8) ^ ROTL(two, 16) ^ ROTL(three, 24);
  }
}
/* Which lanes take q1, by layer, of which shorter keys leave out the first ones (section 4.3.5). */
#define TWOFISH_LANES(layer) ((layer) == 0u ? 0xff0000ffu : (layer) == 1u ? 0x0000ffffu \
    : (layer) == 2u ? 0xff00ff00u : 0xffff0000u)
#define TWOFISH_LAST_LANES 0x00ff00ffu
/* h of section 4.3.2 on eight words; LAYER_KEY(i) makes `k_`, the planes that are XORed behind layer i. */
#define TWOFISH_H(q, LAYER_KEY) { \
  u32 left_out = 4u - key_words / 2u; \
  transpose(q); \
  ROLL \
  for (u32 layer = left_out; layer < 4u; layer++) { \
    u32 k_[8]; \
    LAYER_KEY(layer - left_out) \
    twofish_q(q, TWOFISH_LANES(layer)); \
    UNROLL \
    for (int i_ = 0; i_ < 8; i_++) q[i_] ^= k_[i_]; \
  } \
  twofish_q(q, TWOFISH_LAST_LANES); \
  twofish_matrix(q); \
  transpose(q); }

#define TWOFISH_G_KEY(i) LOAD4(rk + 40u + 8u * (i), k_); LOAD4(rk + 44u + 8u * (i), k_ + 4);
/* Section 4.2: of each block, words A and B make what words C and D are combined with. */
#define TWOFISH_F(A, B) \
  u32 q[8]; \
  UNROLL \
  for (u32 j = 0u; j < 4u; j++) { q[2u * j] = x[4u * j + A]; q[2u * j + 1u] = ROTL(x[4u * j + B], 8); } \
  TWOFISH_H(q, TWOFISH_G_KEY)
#define TWOFISH_ENCRYPT_ROUND(r, A, B, C, D) { \
  TWOFISH_F(A, B) \
  u32 k0 = rk[8u + 2u * (r)], k1 = rk[9u + 2u * (r)]; \
  UNROLL \
  for (u32 j = 0u; j < 4u; j++) { \
    u32 t0 = q[2u * j], t1 = q[2u * j + 1u]; \
    x[4u * j + C] = ROTL(x[4u * j + C] ^ (t0 + t1 + k0), 31); \
    x[4u * j + D] = ROTL(x[4u * j + D], 1) ^ (t0 + t1 + t1 + k1); } }
#define TWOFISH_DECRYPT_ROUND(r, A, B, C, D) { \
  TWOFISH_F(A, B) \
  u32 k0 = rk[8u + 2u * (r)], k1 = rk[9u + 2u * (r)]; \
  UNROLL \
  for (u32 j = 0u; j < 4u; j++) { \
    u32 t0 = q[2u * j], t1 = q[2u * j + 1u]; \
    x[4u * j + C] = ROTL(x[4u * j + C], 1) ^ (t0 + t1 + k0); \
    x[4u * j + D] = ROTL(x[4u * j + D] ^ (t0 + t1 + t1 + k1), 31); } }

/* Whitening, with the halves exchanged at one end. */
DEVICE void twofish_whiten(u32 *x, GLOBAL const u32 *k) {
  u32 w[4];
  LOAD4(k, w);
  UNROLL
  for (u32 j = 0u; j < 16u; j++) x[j] ^= w[j % 4u];
}
DEVICE void twofish_exchange(u32 *x) {
  UNROLL
  for (u32 j = 0u; j < 16u; j += 4u) {
    u32 t = x[j]; x[j] = x[j + 2u]; x[j + 2u] = t;
    t = x[j + 1u]; x[j + 1u] = x[j + 3u]; x[j + 3u] = t;
  }
}
DEVICE void twofish_encrypt_blocks(u32 *x, GLOBAL const u32 *rk, u32 key_words) {
  twofish_whiten(x, rk);
  ROLL
  for (u32 r = 0u; r < 16u; r++) {
    TWOFISH_ENCRYPT_ROUND(r, 0u, 1u, 2u, 3u)
    twofish_exchange(x);
  }
  twofish_exchange(x);
  twofish_whiten(x, rk + 4u);
}
DEVICE void twofish_decrypt_blocks(u32 *x, GLOBAL const u32 *rk, u32 key_words) {
  twofish_whiten(x, rk + 4u);
  twofish_exchange(x);
  ROLL
  for (u32 r = 16u; r != 0u; r--) {
    twofish_exchange(x);
    TWOFISH_DECRYPT_ROUND(r - 1u, 0u, 1u, 2u, 3u)
  }
  twofish_whiten(x, rk);
}

/* Section 4.3: the code RS, as the remainder of a division: eight bytes, the first one the least significant of `lo`,
   become four. The divisor is x^4 + (w + 1/w) x^3 + w x^2 + (w + 1/w) x + 1 over the field of
   w^8 + w^6 + w^3 + w^2 + 1. */
DEVICE u32 twofish_code(u32 lo, u32 hi) {
  u32 rest = hi;
  ROLL
  for (u32 i = 0u; i < 8u; i++) {
    u32 lead = rest >> 24;
    u32 up = ((lead << 1) ^ ((lead >> 7) * 0x14du)) & 0xffu;
    u32 both = up ^ (lead >> 1) ^ ((lead & 1u) * 0xa6u);
    rest = (rest << 8) | (i < 4u ? (lo >> (24u - 8u * i)) & 0xffu : 0u);
    rest ^= lead ^ (both << 8) ^ (up << 16) ^ (both << 24);
  }
  return rest;
}
DEVICE u32 twofish_spread(u32 word, u32 bit) { return ((word >> bit) & 0x01010101u) * 0xffu; }
/* Layers take the key's words from the last on; words of even number for words 0, 2, 4, 6 of h, odd ones for the
   others. */
#define TWOFISH_H_KEY(i) { \
  u32 even_ = key[key_words - 2u - 2u * (i)], odd_ = key[key_words - 1u - 2u * (i)]; \
  UNROLL \
  for (u32 b = 0u; b < 8u; b++) \
    k_[b] = (twofish_spread(even_, b) & 0x55555555u) | (twofish_spread(odd_, b) & 0xaaaaaaaau); }
DEVICE void twofish_expand_key(GLOBAL const u32 *key, GLOBAL u32 *s, u32 key_words) {
  ROLL
  for (u32 n = 0u; n < 40u; n += 8u) {
    u32 q[8];
    UNROLL
    for (u32 j = 0u; j < 8u; j++) q[j] = (n + j) * 0x01010101u;
    TWOFISH_H(q, TWOFISH_H_KEY)
    UNROLL
    for (u32 j = 0u; j < 8u; j += 2u) {
      u32 b = ROTL(q[j + 1u], 8), a = q[j] + b;
      s[n + j] = a;
      s[n + j + 1u] = ROTL(a + b, 9);
    }
  }
  ROLL
  for (u32 i = 0u; i < key_words / 2u; i++) {
    u32 word = twofish_code(key[2u * i], key[2u * i + 1u]);
    ROLL
    for (u32 b = 0u; b < 8u; b++) s[40u + 8u * i + b] = twofish_spread(word, b);
  }
}

EXPAND_KERNEL(twofish_expand, TWOFISH_SCHEDULE, twofish_expand_key(key, s, key_words))
BLOCK_KERNEL(twofish_encrypt, TWOFISH_BLOCKS, TWOFISH_SCHEDULE, twofish_encrypt_blocks(x, rk, key_words))
BLOCK_KERNEL(twofish_decrypt, TWOFISH_BLOCKS, TWOFISH_SCHEDULE, twofish_decrypt_blocks(x, rk, key_words))
