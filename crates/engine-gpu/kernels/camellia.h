/* Camellia (RFC 3713): one work-item, four blocks. A half of all of them is eight planes: byte c of a plane holds byte
   c of each word, the lower four bits of it for the left words, the higher for the right ones. BEFORE and AFTER are
   the affine maps on both sides of the S-box of AES that make it s1, made from section 2.4.4. */
#define CAMELLIA_BLOCKS 4u
/* Eight planes for each of 24 round keys, 6 keys of FL and FLINV, and 4 for whitening; behind them two words each. */
#define CAMELLIA_LAYER_KEYS 24u
#define CAMELLIA_WHITENING 30u
#define CAMELLIA_KEYS 34u
#define CAMELLIA_WORDS 272u
#define CAMELLIA_SCHEDULE 340u

#define LEFT 0x0f0f0f0fu
#define RIGHT 0xf0f0f0f0u
/* Where s2, s3 and s4 stand; the other bytes have s1. */
#define S2_LANES 0x00000ff0u
#define S3_LANES 0x000ff000u
#define S4_LANES 0x0ff00000u

/* The function P of section 2.4.1 with its halves' exchange. */
#define CAMELLIA_P(p) { \
  p ^= (ROTL(p, 24) >> 4) & LEFT; \
  p ^= (ROTL(p, 16) << 4) & RIGHT; \
  p ^= (ROTL(p, 8) >> 4) & LEFT; \
  p ^= (ROTL(p, 8) << 4) & RIGHT; \
  p = ((p >> 4) & LEFT) | ((p << 4) & RIGHT); }
/* to ^= F(from, key) */
DEVICE void camellia_f(u32 *to, const u32 *from, const u32 *key) {
  u32 x[8], q[8], s[8];
  UNROLL
  for (int i = 0; i < 8; i++) x[i] = from[i] ^ key[i];
  UNROLL
  for (int i = 0; i < 8; i++) q[i] = x[i] ^ ((x[i] ^ x[(i + 7) & 7]) & S4_LANES);
  BEFORE(q, x)
  aes_box(x);
  AFTER(x, s)
  UNROLL
  for (int i = 0; i < 8; i++) {
    u32 p = (s[i] & ~(S2_LANES | S3_LANES)) | (s[(i + 7) & 7] & S2_LANES) | (s[(i + 1) & 7] & S3_LANES);
    CAMELLIA_P(p)
    to[i] ^= p;
  }
}

DEVICE void camellia_key(GLOBAL const u32 *rk, u32 number, u32 *k) {
  LOAD4(rk + 8u * number, k);
  LOAD4(rk + 8u * number + 4u, k + 4);
}
/* The words of one side of a plane, as bits of the other side. */
#define TO_RIGHT(p) (((p) << 4) & RIGHT)
#define TO_LEFT(p) (((p) >> 4) & LEFT)
/* Section 2.4.2: right ^= (left & key's left) turned left by a bit; left ^= right | key's right. */
DEVICE void camellia_fl(u32 *x, const u32 *k) {
  u32 t[8];
  UNROLL
  for (int i = 0; i < 8; i++) t[i] = x[i] & k[i];
  x[0] ^= TO_RIGHT(ROTL(t[7], 24));
  UNROLL
  for (int i = 1; i < 8; i++) x[i] ^= TO_RIGHT(t[i - 1]);
  UNROLL
  for (int i = 0; i < 8; i++) x[i] ^= TO_LEFT(x[i] | k[i]);
}
DEVICE void camellia_flinv(u32 *x, const u32 *k) {
  u32 t[8];
  UNROLL
  for (int i = 0; i < 8; i++) x[i] ^= TO_LEFT(x[i] | k[i]);
  UNROLL
  for (int i = 0; i < 8; i++) t[i] = x[i] & k[i];
  x[0] ^= TO_RIGHT(ROTL(t[7], 24));
  UNROLL
  for (int i = 1; i < 8; i++) x[i] ^= TO_RIGHT(t[i - 1]);
}

DEVICE void camellia_in(const u32 *x, u32 word, u32 *q) {
  UNROLL
  for (u32 j = 0u; j < 4u; j++) { q[j] = x[4u * j + word]; q[4u + j] = x[4u * j + word + 1u]; }
  transpose(q);
}
DEVICE void camellia_out(u32 *q, u32 *x, u32 word) {
  transpose(q);
  UNROLL
  for (u32 j = 0u; j < 4u; j++) { x[4u * j + word] = q[j]; x[4u * j + word + 1u] = q[4u + j]; }
}
DEVICE void camellia_whiten(u32 *q, GLOBAL const u32 *rk, u32 number) {
  u32 k[8];
  camellia_key(rk, number, k);
  UNROLL
  for (int i = 0; i < 8; i++) q[i] ^= k[i];
}

/* Section 2.3. To decrypt, the keys are taken from the last on. */
DEVICE void camellia_blocks(u32 *x, GLOBAL const u32 *rk, u32 key_words, u32 decrypt) {
  u32 a[8], b[8], k[8];
  u32 rounds = key_words == 4u ? 18u : 24u;
  u32 layers = key_words == 4u ? 4u : 6u;
  u32 turn = decrypt ? 2u : 0u;
  camellia_in(x, 0u, a);
  camellia_in(x, 2u, b);
  camellia_whiten(a, rk, CAMELLIA_WHITENING + turn);
  camellia_whiten(b, rk, CAMELLIA_WHITENING + turn + 1u);
  ROLL
  for (u32 r = 0u; r < rounds; r += 2u) {
    if (r == 6u || r == 12u || r == 18u) {
      u32 layer = r / 3u - 2u;
      camellia_key(rk, CAMELLIA_LAYER_KEYS + (decrypt ? layers - 1u - layer : layer), k);
      camellia_fl(a, k);
      camellia_key(rk, CAMELLIA_LAYER_KEYS + (decrypt ? layers - 2u - layer : layer + 1u), k);
      camellia_flinv(b, k);
    }
    camellia_key(rk, decrypt ? rounds - 1u - r : r, k);
    camellia_f(b, a, k);
    camellia_key(rk, decrypt ? rounds - 2u - r : r + 1u, k);
    camellia_f(a, b, k);
  }
  camellia_whiten(b, rk, CAMELLIA_WHITENING + 2u - turn);
  camellia_whiten(a, rk, CAMELLIA_WHITENING + 3u - turn);
  camellia_out(b, x, 0u);
  camellia_out(a, x, 2u);
}

/* The constants of section 2.2: the words of the two that the pass `pass` of the schedule takes. */
#define SIGMA(pass, first, second, third) swap_bytes((pass) == 0u ? first : (pass) == 1u ? second : third)
/* Two rounds of the schedule on a block of four words. */
DEVICE void camellia_mix(u32 *v, u32 pass) {
  u32 a[8], b[8], k[8];
  UNROLL
  for (int j = 0; j < 4; j++) { a[j] = v[0]; a[4 + j] = v[1]; b[j] = v[2]; b[4 + j] = v[3]; }
  transpose(a);
  transpose(b);
  UNROLL
  for (int j = 0; j < 4; j++) {
    k[j] = SIGMA(pass, 0xa09e667fu, 0xc6ef372fu, 0x10e527fau);
    k[4 + j] = SIGMA(pass, 0x3bcc908bu, 0xe94f82beu, 0xde682d1du);
  }
  transpose(k);
  camellia_f(b, a, k);
  UNROLL
  for (int j = 0; j < 4; j++) {
    k[j] = SIGMA(pass, 0xb67ae858u, 0x54ff53a5u, 0xb05688c2u);
    k[4 + j] = SIGMA(pass, 0x4caa73b2u, 0xf1d36f1cu, 0xb3e6c1fdu);
  }
  transpose(k);
  camellia_f(a, b, k);
  transpose(a);
  transpose(b);
  v[0] = a[0]; v[1] = a[4]; v[2] = b[0]; v[3] = b[4];
}

/* Word `i` of a value of 128 bits turned left by n. */
#define TURNED(v, n, i) (swap_bytes( \
  ((n) % 32u) == 0u ? swap_bytes(v[((n) / 32u + (i)) & 3u]) \
  : (swap_bytes(v[((n) / 32u + (i)) & 3u]) << ((n) % 32u)) | \
    (swap_bytes(v[((n) / 32u + (i) + 1u) & 3u]) >> ((32u - (n) % 32u) & 31u))))
#define CAMELLIA_HALF(number, v, n, half) \
  w[2u * (number)] = TURNED(v, n, 2u * (half)); w[2u * (number) + 1u] = TURNED(v, n, 2u * (half) + 1u);
#define CAMELLIA_PAIR(number, v, n) CAMELLIA_HALF(number, v, n, 0u) CAMELLIA_HALF((number) + 1u, v, n, 1u)

DEVICE void camellia_expand_key(GLOBAL const u32 *key, GLOBAL u32 *s, u32 key_words) {
  GLOBAL u32 *w = s + CAMELLIA_WORDS;
  u32 kl[4], kr[4], ka[4], kb[4];
  LOAD4(key, kl);
  LOAD4(key + 4, kr);
  UNROLL
  for (int i = 0; i < 4; i++) { ka[i] = kl[i]; kb[i] = kl[i] ^ kr[i]; }
  ROLL
  for (u32 pass = 0u; pass < 3u; pass++) {
    camellia_mix(kb, pass);
    /* KA comes after two passes; KB is made of it. */
    UNROLL
    for (int i = 0; i < 4; i++) {
      ka[i] = pass == 1u ? kb[i] : ka[i];
      kb[i] ^= pass == 0u ? kl[i] : pass == 1u ? kr[i] : 0u;
    }
  }
  CAMELLIA_PAIR(CAMELLIA_WHITENING, kl, 0u)
  if (key_words == 4u) {
    CAMELLIA_PAIR(0u, ka, 0u) CAMELLIA_PAIR(2u, kl, 15u) CAMELLIA_PAIR(4u, ka, 15u)
    CAMELLIA_PAIR(6u, kl, 45u) CAMELLIA_HALF(8u, ka, 45u, 0u) CAMELLIA_HALF(9u, kl, 60u, 1u)
    CAMELLIA_PAIR(10u, ka, 60u)
    CAMELLIA_PAIR(12u, kl, 94u) CAMELLIA_PAIR(14u, ka, 94u) CAMELLIA_PAIR(16u, kl, 111u)
    CAMELLIA_PAIR(CAMELLIA_LAYER_KEYS, ka, 30u) CAMELLIA_PAIR(CAMELLIA_LAYER_KEYS + 2u, kl, 77u)
    CAMELLIA_PAIR(CAMELLIA_WHITENING + 2u, ka, 111u)
  } else {
    CAMELLIA_PAIR(0u, kb, 0u) CAMELLIA_PAIR(2u, kr, 15u) CAMELLIA_PAIR(4u, ka, 15u)
    CAMELLIA_PAIR(6u, kb, 30u) CAMELLIA_PAIR(8u, kl, 45u) CAMELLIA_PAIR(10u, ka, 45u)
    CAMELLIA_PAIR(12u, kr, 60u) CAMELLIA_PAIR(14u, kb, 60u) CAMELLIA_PAIR(16u, kl, 77u)
    CAMELLIA_PAIR(18u, kr, 94u) CAMELLIA_PAIR(20u, ka, 94u) CAMELLIA_PAIR(22u, kl, 111u)
    CAMELLIA_PAIR(CAMELLIA_LAYER_KEYS, kr, 30u) CAMELLIA_PAIR(CAMELLIA_LAYER_KEYS + 2u, kl, 60u)
    CAMELLIA_PAIR(CAMELLIA_LAYER_KEYS + 4u, ka, 77u)
    CAMELLIA_PAIR(CAMELLIA_WHITENING + 2u, kb, 111u)
  }
  ROLL
  for (u32 n = 0u; n < CAMELLIA_KEYS; n++) {
    u32 q[8], left = w[2u * n], right = w[2u * n + 1u];
    UNROLL
    for (int j = 0; j < 4; j++) { q[j] = left; q[4 + j] = right; }
    transpose(q);
    STORE4(s + 8u * n, q);
    STORE4(s + 8u * n + 4u, q + 4);
  }
}

EXPAND_KERNEL(camellia_expand, CAMELLIA_SCHEDULE, camellia_expand_key(key, s, key_words))
BLOCK_KERNEL(camellia_encrypt, CAMELLIA_BLOCKS, CAMELLIA_SCHEDULE, camellia_blocks(x, rk, key_words, 0u))
BLOCK_KERNEL(camellia_decrypt, CAMELLIA_BLOCKS, CAMELLIA_SCHEDULE, camellia_blocks(x, rk, key_words, 1u))
