/* CUDA C++ for NVRTC: no headers */
typedef unsigned int u32;
#define KERNEL(name) extern "C" __global__ void name
#define GLOBAL
#define DEVICE static __device__ __forceinline__
#define GLOBAL_ID (blockIdx.x * blockDim.x + threadIdx.x)
#define ROTL(x, n) __funnelshift_l((x), (x), (n))
struct __align__(16) u32x4 { u32 a, b, c, d; };
#define LOAD4(p, v) do { u32x4 t_ = *(const u32x4 *)(p); (v)[0] = t_.a; (v)[1] = t_.b; (v)[2] = t_.c; (v)[3] = t_.d; } while (0)
#define STORE4(p, v) do { u32x4 t_ = { (v)[0], (v)[1], (v)[2], (v)[3] }; *(u32x4 *)(p) = t_; } while (0)
#define UNROLL _Pragma("unroll")
#define ROLL _Pragma("unroll 1")
