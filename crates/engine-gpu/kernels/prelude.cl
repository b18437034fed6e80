/* OpenCL C 1.2 */
typedef uint u32;
#define KERNEL(name) __kernel void name
#define GLOBAL __global
#define DEVICE static inline __attribute__((always_inline))
#define GLOBAL_ID ((u32)get_global_id(0))
#define ROTL(x, n) rotate((u32)(x), (u32)(n))
#define LOAD4(p, v) do { uint4 t_ = vload4(0, (p)); (v)[0] = t_.s0; (v)[1] = t_.s1; (v)[2] = t_.s2; (v)[3] = t_.s3; } while (0)
#define STORE4(p, v) vstore4((uint4)((v)[0], (v)[1], (v)[2], (v)[3]), 0, (p))
#define UNROLL _Pragma("unroll")
#define ROLL _Pragma("nounroll")
