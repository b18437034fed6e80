/* AES (FIPS 197), bitsliced: one work-item, two blocks in eight planes. Byte r of a plane is row r of both
   states; in it two bits for each column. */
#define AES_BLOCKS 2u
#define AES_ROUND_KEYS 120u   /* 15 of eight planes */
#define AES_SCHEDULE 180u     /* behind them the 60 words of FIPS 197 section 5.2 */

DEVICE void aes_shift_rows(u32 *q) {
  UNROLL
  for (int i = 0; i < 8; i++) {
    u32 x = q[i];
    q[i] = (x & 0x000000ffu) | ((x & 0x0000fc00u) >> 2) | ((x & 0x00000300u) << 6) | ((x & 0x00f00000u) >> 4) |
           ((x & 0x000f0000u) << 4) | ((x & 0xc0000000u) >> 6) | ((x & 0x3f000000u) << 2);
  }
}
DEVICE void aes_unshift_rows(u32 *q) {
  UNROLL
  for (int i = 0; i < 8; i++) {
    u32 x = q[i];
    q[i] = (x & 0x000000ffu) | ((x & 0x00003f00u) << 2) | ((x & 0x0000c000u) >> 6) | ((x & 0x00f00000u) >> 4) |
           ((x & 0x000f0000u) << 4) | ((x & 0x03000000u) << 6) | ((x & 0xfc000000u) >> 2);
  }
}
#define R8(x) ROTL(x, 24)
#define R16(x) ROTL(x, 16)
DEVICE void aes_mix_columns(u32 *q) {
  u32 q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3], q4 = q[4], q5 = q[5], q6 = q[6], q7 = q[7];
  u32 r0 = R8(q0), r1 = R8(q1), r2 = R8(q2), r3 = R8(q3), r4 = R8(q4), r5 = R8(q5), r6 = R8(q6), r7 = R8(q7);
  q[0] = q7 ^ r7 ^ r0 ^ R16(q0 ^ r0);
  q[1] = q0 ^ r0 ^ q7 ^ r7 ^ r1 ^ R16(q1 ^ r1);
  q[2] = q1 ^ r1 ^ r2 ^ R16(q2 ^ r2);
  q[3] = q2 ^ r2 ^ q7 ^ r7 ^ r3 ^ R16(q3 ^ r3);
  q[4] = q3 ^ r3 ^ q7 ^ r7 ^ r4 ^ R16(q4 ^ r4);
  q[5] = q4 ^ r4 ^ r5 ^ R16(q5 ^ r5);
  q[6] = q5 ^ r5 ^ r6 ^ R16(q6 ^ r6);
  q[7] = q6 ^ r6 ^ r7 ^ R16(q7 ^ r7);
}
/* The inverse is MixColumns of the state plus 4 times (the state plus itself two rows on). */
DEVICE void aes_unmix_columns(u32 *q) {
  u32 t0 = q[0] ^ R16(q[0]), t1 = q[1] ^ R16(q[1]), t2 = q[2] ^ R16(q[2]), t3 = q[3] ^ R16(q[3]);
  u32 t4 = q[4] ^ R16(q[4]), t5 = q[5] ^ R16(q[5]), t6 = q[6] ^ R16(q[6]), t7 = q[7] ^ R16(q[7]);
  q[0] ^= t6; q[1] ^= t6 ^ t7; q[2] ^= t0 ^ t7; q[3] ^= t1 ^ t6;
  q[4] ^= t2 ^ t6 ^ t7; q[5] ^= t3 ^ t7; q[6] ^= t4; q[7] ^= t5;
  aes_mix_columns(q);
}
/* The inverse of the affine map of the S-box. */
DEVICE void aes_unmap(u32 *s) {
  u32 s0 = s[0], s1 = s[1], s2 = s[2], s3 = s[3], s4 = s[4], s5 = s[5], s6 = s[6], s7 = s[7];
  s[0] = ~(s7 ^ s5 ^ s2); s[1] = s0 ^ s6 ^ s3; s[2] = ~(s1 ^ s7 ^ s4); s[3] = s2 ^ s0 ^ s5;
  s[4] = s3 ^ s1 ^ s6; s[5] = s4 ^ s2 ^ s7; s[6] = s5 ^ s3 ^ s0; s[7] = s6 ^ s4 ^ s1;
}
DEVICE void aes_unbox(u32 *q) { aes_unmap(q); aes_box(q); aes_unmap(q); }

DEVICE void aes_add(u32 *q, GLOBAL const u32 *rk, u32 round) {
  u32 k[8];
  LOAD4(rk + 8u * round, k);
  LOAD4(rk + 8u * round + 4u, k + 4);
  UNROLL
  for (int i = 0; i < 8; i++) q[i] ^= k[i];
}
DEVICE void aes_in(const u32 *x, u32 *q) {
  UNROLL
  for (int i = 0; i < 4; i++) { q[2 * i] = x[i]; q[2 * i + 1] = x[i + 4]; }
  transpose(q);
}
DEVICE void aes_out(u32 *q, u32 *x) {
  transpose(q);
  UNROLL
  for (int i = 0; i < 4; i++) { x[i] = q[2 * i]; x[i + 4] = q[2 * i + 1]; }
}

DEVICE void aes_encrypt_blocks(u32 *x, GLOBAL const u32 *rk, u32 key_words) {
  u32 q[8], rounds = key_words + 6u;
  aes_in(x, q);
  aes_add(q, rk, 0u);
  ROLL
  for (u32 r = 1u; r < rounds; r++) {
    aes_box(q); aes_shift_rows(q); aes_mix_columns(q); aes_add(q, rk, r);
  }
  aes_box(q); aes_shift_rows(q); aes_add(q, rk, rounds);
  aes_out(q, x);
}
DEVICE void aes_decrypt_blocks(u32 *x, GLOBAL const u32 *rk, u32 key_words) {
  u32 q[8], rounds = key_words + 6u;
  aes_in(x, q);
  aes_add(q, rk, rounds);
  ROLL
  for (u32 r = rounds - 1u; r != 0u; r--) {
    aes_unshift_rows(q); aes_unbox(q); aes_add(q, rk, r); aes_unmix_columns(q);
  }
  aes_unshift_rows(q); aes_unbox(q); aes_add(q, rk, 0u);
  aes_out(q, x);
}

DEVICE u32 aes_substitute_word(u32 word) {
  u32 q[8] = { word, 0u, 0u, 0u, 0u, 0u, 0u, 0u };
  transpose(q); aes_box(q); transpose(q);
  return q[0];
}
DEVICE void aes_expand_key(GLOBAL const u32 *key, GLOBAL u32 *s, u32 key_words) {
  GLOBAL u32 *w = s + AES_ROUND_KEYS;
  u32 last = 0u, rcon = 1u, rounds = key_words + 6u;
  ROLL
  for (u32 i = 0u; i < key_words; i++) { last = key[i]; w[i] = last; }
  ROLL
  for (u32 i = key_words; i < 4u * (rounds + 1u); i++) {
    u32 at = i % key_words;
    if (at == 0u) {
      last = aes_substitute_word(ROTL(last, 24)) ^ rcon;
      rcon = (rcon << 1) ^ ((rcon >> 7) * 0x11bu);
    } else if (key_words == 8u && at == 4u) {
      last = aes_substitute_word(last);
    }
    last ^= w[i - key_words];
    w[i] = last;
  }
  ROLL
  for (u32 r = 0u; r <= rounds; r++) {
    u32 q[8];
    UNROLL
    for (u32 i = 0u; i < 4u; i++) q[2u * i] = q[2u * i + 1u] = w[4u * r + i];
    transpose(q);
    STORE4(s + 8u * r, q);
    STORE4(s + 8u * r + 4u, q + 4);
  }
}

EXPAND_KERNEL(aes_expand, AES_SCHEDULE, aes_expand_key(key, s, key_words))
BLOCK_KERNEL(aes_encrypt, AES_BLOCKS, AES_SCHEDULE, aes_encrypt_blocks(x, rk, key_words))
BLOCK_KERNEL(aes_decrypt, AES_BLOCKS, AES_SCHEDULE, aes_decrypt_blocks(x, rk, key_words))
