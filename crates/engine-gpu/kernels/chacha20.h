/* ChaCha20 (RFC 8439 section 2.3): one work-item, one block of 64 bytes. A piece counts such blocks. The schedule is
   the key itself. */
#define CHACHA_QUARTER(a, b, c, d) \
  a += b; d = ROTL(d ^ a, 16); c += d; b = ROTL(b ^ c, 12); a += b; d = ROTL(d ^ a, 8); c += d; b = ROTL(b ^ c, 7);

KERNEL(chacha20_encrypt)(ARGUMENTS) {
  u32 g = GLOBAL_ID;
  if (g >= total) return;
  GLOBAL const u32 *piece = pieces + (first_piece + g / units) * PIECE_WORDS;
  u32 block = g % units;
  if (block >= piece[3]) return;
  u32 s[16], x[16];
  s[0] = 0x61707865u; s[1] = 0x3320646eu; s[2] = 0x79622d32u; s[3] = 0x6b206574u;
  LOAD4(schedules + piece[0] * 8u, s + 4);
  LOAD4(schedules + piece[0] * 8u + 4u, s + 8);
  s[12] = piece[1] + block; s[13] = piece[4]; s[14] = piece[5]; s[15] = piece[6];
  UNROLL
  for (int i = 0; i < 16; i++) x[i] = s[i];
  ROLL
  for (int i = 0; i < 10; i++) {
    CHACHA_QUARTER(x[0], x[4], x[8], x[12]) CHACHA_QUARTER(x[1], x[5], x[9], x[13])
    CHACHA_QUARTER(x[2], x[6], x[10], x[14]) CHACHA_QUARTER(x[3], x[7], x[11], x[15])
    CHACHA_QUARTER(x[0], x[5], x[10], x[15]) CHACHA_QUARTER(x[1], x[6], x[11], x[12])
    CHACHA_QUARTER(x[2], x[7], x[8], x[13]) CHACHA_QUARTER(x[3], x[4], x[9], x[14])
  }
  GLOBAL u32 *at = data + (piece[2] + 4u * block) * 4u;
  UNROLL
  for (int i = 0; i < 16; i++) x[i] += s[i];
  UNROLL
  for (u32 i = 0u; i < 4u; i++) store_block(piece, at + 4u * i, tweaks, mode, 0u, x + 4u * i);
}
