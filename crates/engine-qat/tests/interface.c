/* The types of QATlib's functions as the engine calls them, and the sizes,
 * offsets and constants that `interface.rs` compares with its own. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <qat/cpa.h>
#include <qat/cpa_cy_im.h>
#include <qat/cpa_cy_sym.h>
#include <qat/cpa_cy_sym_dp.h>
#include <qat/icp_sal_poll.h>
#include <qat/icp_sal_user.h>
#include <qat/qae_mem.h>

#define TYPE(function, ...) \
    _Static_assert(__builtin_types_compatible_p(typeof(&function), __VA_ARGS__), #function)

TYPE(icp_sal_userStart, int32_t (*)(const char *));
TYPE(icp_sal_userIsQatAvailable, CpaBoolean (*)(void));
TYPE(icp_sal_poll_device_events, int32_t (*)(void));
TYPE(icp_sal_CyPollDpInstance, int32_t (*)(void *, uint32_t));
TYPE(cpaCyGetNumInstances, int32_t (*)(uint16_t *));
TYPE(cpaCyGetInstances, int32_t (*)(uint16_t, void **));
TYPE(cpaCyStartInstance, int32_t (*)(void *));
TYPE(cpaCyStopInstance, int32_t (*)(void *));
TYPE(cpaCySetAddressTranslation, int32_t (*)(void *, uint64_t (*)(void *)));
TYPE(cpaCySymDpRegCbFunc, int32_t (*)(void *, void (*)(CpaCySymDpOpData *, int32_t, CpaBoolean)));
TYPE(cpaCySymDpSessionCtxGetSize, int32_t (*)(void *, const CpaCySymSessionSetupData *, uint32_t *));
TYPE(cpaCySymDpInitSession, int32_t (*)(void *, const CpaCySymSessionSetupData *, void *));
TYPE(cpaCySymDpRemoveSession, int32_t (*)(void *, void *));
TYPE(cpaCySymDpEnqueueOp, int32_t (*)(CpaCySymDpOpData *, CpaBoolean));
TYPE(cpaCySymDpPerformOpNow, int32_t (*)(void *));
TYPE(qaeMemAllocNUMA, void *(*)(size_t, int, size_t));
TYPE(qaeMemFreeNUMA, void (*)(void **));
TYPE(qaeVirtToPhysNUMA, uint64_t (*)(void *));

#define SIZE(type) printf(#type " %lld\n", (long long)sizeof(type))
#define OFFSET(type, member) printf(#type "." #member " %lld\n", (long long)offsetof(type, member))
#define VALUE(name) printf(#name " %lld\n", (long long)(name))

int main(void)
{
#include "asked.h"
    return 0;
}
