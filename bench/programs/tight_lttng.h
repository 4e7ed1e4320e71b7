// LTTng-UST's way of declaring the event that tight.c reports: four numbers, 32 bytes.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tight
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tight_lttng.h"
#if !defined(TIGHT_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TIGHT_LTTNG_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(tight, work, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)
                                                   lttng_ust_field_integer(uint64_t, c, c)
                                                       lttng_ust_field_integer(uint64_t, d, d)))
#endif
#include <lttng/tracepoint-event.h>
