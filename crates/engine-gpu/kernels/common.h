/* What every cipher shares. Kernels work on *pieces*: runs of cipher blocks that lie together in `data`.
   A piece has eight words:
     0  which of `schedules`
     1  counter modes: the counter of the first block; XTS: the number of the first block in its run of sectors
     2  where it begins in `data`, in units of 16 bytes
     3  how many cipher blocks it has
     4  counter modes: words 4 to 6 are the nonce; XTS: the first of its run's tweaks, 5: blocks in a sector
   `units` work-items work on one piece, N blocks each. Where a piece ends within N blocks, what follows it
   up to a multiple of 64 bytes is scratch space.

   Every address and every branch depends on the launch's arguments, on the work-item's number and on
   pieces alone, never on keys, tweaks or data. `cargo xtask gpu` checks that in what compilers made of it. */

#define MODE_COUNTER 0u      /* keystream into data */
#define MODE_COUNTER_XOR 1u  /* keystream onto data */
#define MODE_BLOCKS 2u       /* each block by itself: for tweaks */
#define MODE_XTS 3u
#define PIECE_WORDS 8u

#define ARGUMENTS GLOBAL const u32 *pieces, GLOBAL u32 *data, GLOBAL const u32 *schedules, \
    GLOBAL const u32 *tweaks, u32 first_piece, u32 units, u32 total, u32 mode, u32 key_words

DEVICE u32 swap_bytes(u32 x) { return (ROTL(x, 8) & 0x00ff00ffu) | (ROTL(x, 24) & 0xff00ff00u); }

/* IEEE 1619 section 5.2: the tweak times x^n. A word is multiplied by x^32 at a time, then by the rest. */
DEVICE void xts_mask(GLOBAL const u32 *tweak, u32 n, u32 *t) {
  u32 o, s = n & 31u;
  LOAD4(tweak, t);
  ROLL
  for (u32 i = n >> 5; i != 0u; i--) {
    o = t[3]; t[3] = t[2]; t[2] = t[1];
    t[1] = t[0] ^ (o >> 31) ^ (o >> 30) ^ (o >> 25);
    t[0] = o ^ (o << 1) ^ (o << 2) ^ (o << 7);
  }
  if (s != 0u) {
    o = t[3] >> (32u - s);
    t[3] = (t[3] << s) | (t[2] >> (32u - s));
    t[2] = (t[2] << s) | (t[1] >> (32u - s));
    t[1] = (t[1] << s) | (t[0] >> (32u - s));
    t[0] <<= s;
    t[0] ^= o ^ (o << 1) ^ (o << 2) ^ (o << 7);
    t[1] ^= (o >> 30) ^ (o >> 25);
  }
}

DEVICE void xts_onto(GLOBAL const u32 *piece, GLOBAL const u32 *tweaks, u32 block, u32 *x) {
  u32 t[4], last = piece[3] - 1u;
  u32 at = piece[1] + (block < last ? block : last);
  xts_mask(tweaks + (piece[4] + at / piece[5]) * 4u, at % piece[5], t);
  x[0] ^= t[0]; x[1] ^= t[1]; x[2] ^= t[2]; x[3] ^= t[3];
}

/* What goes into the cipher for block `block` of the piece. */
DEVICE void load_block(GLOBAL const u32 *piece, GLOBAL const u32 *at, GLOBAL const u32 *tweaks, u32 mode,
                       u32 block, u32 *x) {
  if (mode <= MODE_COUNTER_XOR) {
    x[0] = piece[4]; x[1] = piece[5]; x[2] = piece[6]; x[3] = swap_bytes(piece[1] + block);
  } else {
    LOAD4(at, x);
    if (mode == MODE_XTS) xts_onto(piece, tweaks, block, x);
  }
}

DEVICE void store_block(GLOBAL const u32 *piece, GLOBAL u32 *at, GLOBAL const u32 *tweaks, u32 mode,
                        u32 block, u32 *x) {
  if (mode == MODE_COUNTER_XOR) {
    u32 d[4];
    LOAD4(at, d);
    x[0] ^= d[0]; x[1] ^= d[1]; x[2] ^= d[2]; x[3] ^= d[3];
  } else if (mode == MODE_XTS) {
    xts_onto(piece, tweaks, block, x);
  }
  STORE4(at, x);
}

/* A kernel in which one work-item does N blocks: COMPUTE works on x[4 * N], with the schedule `rk`. */
#define BLOCK_KERNEL(name, N, SCHEDULE_WORDS, COMPUTE) \
KERNEL(name)(ARGUMENTS) { \
  u32 g = GLOBAL_ID; \
  if (g >= total) return; \
  GLOBAL const u32 *piece = pieces + (first_piece + g / units) * PIECE_WORDS; \
  u32 block = (g % units) * N; \
  if (block >= piece[3]) return; \
  GLOBAL const u32 *rk = schedules + piece[0] * SCHEDULE_WORDS; \
  GLOBAL u32 *at = data + (piece[2] + block) * 4u; \
  u32 x[4 * N]; \
  UNROLL \
  for (u32 j = 0u; j < N; j++) load_block(piece, at + 4u * j, tweaks, mode, block + j, x + 4u * j); \
  COMPUTE; \
  UNROLL \
  for (u32 j = 0u; j < N; j++) store_block(piece, at + 4u * j, tweaks, mode, block + j, x + 4u * j); \
}

/* One work-item makes one schedule of a key of eight words, from key `first_key` on. */
#define EXPAND_KERNEL(name, SCHEDULE_WORDS, COMPUTE) \
KERNEL(name)(GLOBAL const u32 *keys, GLOBAL u32 *schedules, u32 first_key, u32 total, u32 key_words) { \
  u32 g = GLOBAL_ID; \
  if (g >= total) return; \
  GLOBAL const u32 *key = keys + (first_key + g) * 8u; \
  GLOBAL u32 *s = schedules + g * SCHEDULE_WORDS; \
  COMPUTE; \
}
