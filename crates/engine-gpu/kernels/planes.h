/* Eight words as eight planes: bit k of byte c of plane b is bit b of byte c of word k. Its own inverse. */
#define SWAP_BITS(x, y, m, n) do { u32 a_ = ((x) & (m)) | (((y) & (m)) << (n)); \
    y = (((x) & ~(m)) >> (n)) | ((y) & ~(m)); x = a_; } while (0)
DEVICE void transpose(u32 *q) {
  SWAP_BITS(q[0], q[1], 0x55555555u, 1); SWAP_BITS(q[2], q[3], 0x55555555u, 1);
  SWAP_BITS(q[4], q[5], 0x55555555u, 1); SWAP_BITS(q[6], q[7], 0x55555555u, 1);
  SWAP_BITS(q[0], q[2], 0x33333333u, 2); SWAP_BITS(q[1], q[3], 0x33333333u, 2);
  SWAP_BITS(q[4], q[6], 0x33333333u, 2); SWAP_BITS(q[5], q[7], 0x33333333u, 2);
  SWAP_BITS(q[0], q[4], 0x0f0f0f0fu, 4); SWAP_BITS(q[1], q[5], 0x0f0f0f0fu, 4);
  SWAP_BITS(q[2], q[6], 0x0f0f0f0fu, 4); SWAP_BITS(q[3], q[7], 0x0f0f0f0fu, 4);
}
