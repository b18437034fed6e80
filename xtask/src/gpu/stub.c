/* The functions of the CUDA driver that the engine calls, with memory of the host for that of a device. A stream does
   what it is given at once, but an event is ready only when it was asked for twice, as a device takes its time. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int u32;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600 };

struct kernel { const char *name; const void *const *function; void (*set_id)(u32); };
#define KERNEL_ENTRY(cipher, name) extern const void *stub_##name; extern void stub_set_id_##cipher(u32);
KERNEL_TABLE
#undef KERNEL_ENTRY
#define KERNEL_ENTRY(cipher, name) { #name, &stub_##name, stub_set_id_##cipher },
static struct kernel kernels[] = { KERNEL_TABLE { 0, 0, 0 } };

static int context_object;
static _Thread_local void *current;
#define CURRENT if (current != &context_object) return INVALID_CONTEXT

int cuInit(u32 flags) { return flags ? INVALID_VALUE : SUCCESS; }
int cuDriverGetVersion(int *version) { *version = 12010; return SUCCESS; }
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? INVALID_VALUE : SUCCESS; }
int cuDeviceGetName(char *name, int room, int device) {
  strncpy(name, "a driver that is not there", (size_t)room - 1);
  name[room - 1] = 0;
  return device ? INVALID_VALUE : SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1u << 30; return device ? INVALID_VALUE : SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return device || (attribute != 75 && attribute != 76) ? INVALID_VALUE : SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &context_object; return device ? INVALID_VALUE : SUCCESS; }
int cuCtxSetCurrent(void *context) { current = context; return SUCCESS; }

int cuModuleLoadData(void **module, const void *image) {
  CURRENT;
  /* The text names its kernels; that is all that is kept of it. */
  *module = strdup(image);
  return strstr(image, ".visible .entry") ? SUCCESS : INVALID_VALUE;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  CURRENT;
  for (struct kernel *kernel = kernels; kernel->name; kernel++)
    if (!strcmp(kernel->name, name) && strstr(module, name)) { *function = kernel; return SUCCESS; }
  return NOT_FOUND;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  CURRENT;
  void *memory = malloc(bytes);
  if (memory) memset(memory, 0xdb, bytes);
  *address = (uintptr_t)memory;
  return memory ? SUCCESS : 2;
}
int cuMemFree_v2(uint64_t address) { CURRENT; free((void *)(uintptr_t)address); return SUCCESS; }
int cuMemHostAlloc(void **memory, size_t bytes, u32 flags) {
  CURRENT;
  *memory = malloc(bytes);
  return flags == 1 && *memory ? SUCCESS : INVALID_VALUE;
}
int cuMemFreeHost(void *memory) { CURRENT; free(memory); return SUCCESS; }

struct event { int asked; int recorded; };
int cuStreamCreate(void **stream, u32 flags) { CURRENT; *stream = malloc(1); return flags == 1 ? SUCCESS : INVALID_VALUE; }
int cuStreamDestroy_v2(void *stream) { CURRENT; free(stream); return SUCCESS; }
int cuEventCreate(void **event, u32 flags) { CURRENT; *event = calloc(1, sizeof(struct event)); return flags == 2 ? SUCCESS : INVALID_VALUE; }
int cuEventDestroy_v2(void *event) { CURRENT; free(event); return SUCCESS; }
int cuEventRecord(void *event, void *stream) {
  CURRENT;
  *(struct event *)event = (struct event){ 0, 1 };
  return stream ? SUCCESS : INVALID_VALUE;
}
int cuEventQuery(void *event) {
  CURRENT;
  struct event *asked = event;
  return asked->recorded && asked->asked++ ? SUCCESS : NOT_READY;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  CURRENT;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return stream ? SUCCESS : INVALID_VALUE;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  CURRENT;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return stream ? SUCCESS : INVALID_VALUE;
}
int cuMemsetD32Async(uint64_t to, u32 value, size_t words, void *stream) {
  CURRENT;
  for (size_t i = 0; i < words; i++) ((u32 *)(uintptr_t)to)[i] = value;
  return stream ? SUCCESS : INVALID_VALUE;
}

typedef void expand_function(u32 *, u32 *, u32, u32, u32);
typedef void block_function(u32 *, u32 *, u32 *, u32 *, u32, u32, u32, u32, u32);
#define POINTER(i) (*(u32 **)parameters[i])
#define NUMBER(i) (*(u32 *)parameters[i])
int cuLaunchKernel(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *stream,
                   void **parameters, void **extra) {
  CURRENT;
  struct kernel *kernel = function;
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || extra || !stream || !gx) return INVALID_VALUE;
  for (u32 id = 0; id < gx * bx; id++) {
    kernel->set_id(id);
    if (strstr(kernel->name, "_expand"))
      ((expand_function *)*kernel->function)(POINTER(0), POINTER(1), NUMBER(2), NUMBER(3), NUMBER(4));
    else
      ((block_function *)*kernel->function)(POINTER(0), POINTER(1), POINTER(2), POINTER(3), NUMBER(4), NUMBER(5),
                                            NUMBER(6), NUMBER(7), NUMBER(8));
  }
  return SUCCESS;
}

struct call { void (*function)(void *); void *argument; };
static void *run(void *argument) {
  struct call call = *(struct call *)argument;
  free(argument);
  call.function(call.argument);
  return 0;
}
/* On a thread of the driver, as the real one does. */
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument) {
  CURRENT;
  pthread_t thread;
  struct call *call = malloc(sizeof *call);
  *call = (struct call){ function, argument };
  if (!stream || pthread_create(&thread, 0, run, call)) return INVALID_VALUE;
  pthread_detach(thread);
  return SUCCESS;
}
