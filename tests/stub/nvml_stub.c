/* A scripted libnvidia-ml.so.1 for the real pynvml: every answer is looked up in the memory-mapped table $NVML_STUB at every call.
 *
 * The table, its keys and the results that make a call hang or die are described in simulator/nvml_state.py; structs, field
 * values and signatures in nvml.h. Where the table holds -/calls/NAME (a C function) or <device>/calls/field N, calls are counted there. */

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int R;
enum { INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10 };
enum { HEADER = 64, KEY = 88, EVENTS = 64, GPUS = 64, INSTANCES = 16, ALL_LINKS = -1 };

typedef struct { char key[KEY]; union { uint64_t u; int64_t i; double d; } value; int32_t result, type; char text[88]; } Slot;
typedef struct { char key[16]; unsigned gpu, instance; } Device;
typedef Device *D;

static uint8_t *table;
static uint32_t capacity;
static Device gpus[GPUS], instances[GPUS][INSTANCES];

static void map_table(void) {
  const char *path = getenv("NVML_STUB");
  int fd = path ? open(path, O_RDWR) : -1;
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) return;
  table = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (table == MAP_FAILED || memcmp(table, "TOCNVML1", 8)) { table = NULL; return; }
  memcpy(&capacity, table + 8, 4);
}

static Slot *find(const char *key) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (const char *c = key; *c; c++) h = (h ^ (uint8_t)*c) * 0x100000001B3ull;
  for (uint32_t step = 0; table && step < capacity; step++) {
    Slot *slot = (Slot *)(table + HEADER) + (h + step) % capacity;
    if (!strncmp(slot->key, key, KEY)) return slot;
    if (!slot->key[0]) return NULL;
  }
  return NULL;
}

static Slot *findf(const char *form, ...) {
  char key[KEY];
  va_list args;
  va_start(args, form);
  vsnprintf(key, sizeof key, form, args);
  va_end(args);
  return find(key);
}

static R act(R result) {
  if (result == -1) for (;;) pause();
  if (result == -2) abort();
  if (result == -3) *(volatile int *)0 = 0;
  return result;
}

static R code(Slot *slot) { return slot ? act(slot->result) : 0; }

static void count(const char *device, const char *what) {
  Slot *slot = findf("%s/calls/%s", device, what);
  if (slot) __atomic_fetch_add(&slot->value.u, 1, __ATOMIC_RELAXED);
}

/* Codes of the library, the GPU, the instance: the first that is not 0. */
static R state_of(D d) {
  R r = code(find("-/*"));
  if (!r && d) r = code(findf("%u/*", d->gpu));
  if (!r && d && strchr(d->key, '.')) r = code(findf("%s/*", d->key));
  return r;
}

/* One question: prefix of its key, and how many of its parts were found. */
typedef struct { char key[KEY]; int found; R result; } Ask;

static Ask ask(D d, const char *function, const char *form, ...) {
  Ask a = {.found = 0};
  char arguments[48];
  va_list args;
  va_start(args, form);
  vsnprintf(arguments, sizeof arguments, form, args);
  va_end(args);
  count("-", function);
  snprintf(a.key, sizeof a.key, "%s/%s(%s)", d ? d->key : "-", function, arguments);
  a.result = state_of(d);
  Slot *bare = find(a.key);
  if (!a.result && bare) { a.result = code(bare); a.found = 1; }
  return a;
}

static Slot *part(Ask *a, const char *path) {
  Slot *slot = findf("%s%s", a->key, path);
  if (slot) { a->found = 1; if (!a->result) a->result = code(slot); }
  return slot;
}

static uint64_t number(Ask *a, const char *path) { Slot *s = part(a, path); return s ? s->value.u : 0; }
static R done(Ask *a) { return a->result ? a->result : a->found ? 0 : NOT_SUPPORTED; }

static void text(Ask *a, const char *path, char *out, size_t size) {
  Slot *s = part(a, path);
  if (s) snprintf(out, size, "%s", s->text);
}

/* --- getters of one number, two, or text --- */

#define NUMBER(T, name) R name(D d, T *v) { Ask a = ask(d, #name, ""); *v = (T)number(&a, ""); return done(&a); }
#define NUMBER1(T, name) R name(D d, unsigned x, T *v) { Ask a = ask(d, #name, "%u", x); *v = (T)number(&a, ""); return done(&a); }
#define NUMBER2(T, name) \
  R name(D d, unsigned x, unsigned y, T *v) { Ask a = ask(d, #name, "%u, %u", x, y); *v = (T)number(&a, ""); return done(&a); }
#define PAIR(T, name) \
  R name(D d, T *v, T *w) { Ask a = ask(d, #name, ""); *v = (T)number(&a, "[0]"); *w = (T)number(&a, "[1]"); return done(&a); }
#define TEXT(name) R name(D d, char *out, unsigned size) { Ask a = ask(d, #name, ""); text(&a, "", out, size); return done(&a); }

NUMBER(unsigned, nvmlDeviceGetIndex) NUMBER(unsigned, nvmlDeviceGetMinorNumber) NUMBER(int, nvmlDeviceGetNumaNodeId)
NUMBER(unsigned, nvmlDeviceGetArchitecture) NUMBER(unsigned, nvmlDeviceGetBrand)
NUMBER(unsigned, nvmlDeviceGetInforomConfigurationChecksum) NUMBER(unsigned, nvmlDeviceGetPersistenceMode)
NUMBER(unsigned, nvmlDeviceGetComputeMode) NUMBER(unsigned, nvmlDeviceGetPerformanceState) NUMBER(unsigned, nvmlDeviceGetFanSpeed)
NUMBER(unsigned, nvmlDeviceGetPowerUsage) NUMBER(unsigned, nvmlDeviceGetEnforcedPowerLimit)
NUMBER(unsigned, nvmlDeviceGetPowerManagementLimit) NUMBER(unsigned, nvmlDeviceGetPowerManagementDefaultLimit)
NUMBER(unsigned, nvmlDeviceGetCurrPcieLinkGeneration) NUMBER(unsigned, nvmlDeviceGetMaxPcieLinkGeneration)
NUMBER(unsigned, nvmlDeviceGetCurrPcieLinkWidth) NUMBER(unsigned, nvmlDeviceGetMaxPcieLinkWidth)
NUMBER(unsigned, nvmlDeviceGetPcieReplayCounter) NUMBER(unsigned, nvmlDeviceGetRetiredPagesPendingStatus)
NUMBER(unsigned, nvmlDeviceGetMaxMigDeviceCount) NUMBER(unsigned, nvmlDeviceGetComputeInstanceId)
NUMBER(uint64_t, nvmlDeviceGetTotalEnergyConsumption) NUMBER(uint64_t, nvmlDeviceGetSupportedEventTypes)
NUMBER(uint64_t, nvmlDeviceGetCurrentClocksEventReasons) NUMBER(uint64_t, nvmlDeviceGetSupportedClocksEventReasons)
NUMBER(uint64_t, nvmlDeviceGetCurrentClocksThrottleReasons) NUMBER(uint64_t, nvmlDeviceGetSupportedClocksThrottleReasons)
NUMBER1(unsigned, nvmlDeviceGetClockInfo) NUMBER1(unsigned, nvmlDeviceGetMaxClockInfo) NUMBER1(unsigned, nvmlDeviceGetApplicationsClock)
NUMBER1(unsigned, nvmlDeviceGetTemperature) NUMBER1(unsigned, nvmlDeviceGetTemperatureThreshold)
NUMBER1(unsigned, nvmlDeviceGetPcieThroughput) NUMBER1(unsigned, nvmlDeviceGetNvLinkState) NUMBER1(unsigned, nvmlDeviceGetNvLinkVersion)
NUMBER1(unsigned, nvmlDeviceGetNvLinkRemoteDeviceType)
NUMBER2(uint64_t, nvmlDeviceGetNvLinkErrorCounter) NUMBER2(uint64_t, nvmlDeviceGetTotalEccErrors)
PAIR(unsigned, nvmlDeviceGetEncoderUtilization) PAIR(unsigned, nvmlDeviceGetDecoderUtilization) PAIR(unsigned, nvmlDeviceGetJpgUtilization)
PAIR(unsigned, nvmlDeviceGetOfaUtilization) PAIR(unsigned, nvmlDeviceGetMigMode) PAIR(unsigned, nvmlDeviceGetEccMode)
PAIR(unsigned, nvmlDeviceGetPowerManagementLimitConstraints) PAIR(int, nvmlDeviceGetCudaComputeCapability)
TEXT(nvmlDeviceGetName) TEXT(nvmlDeviceGetUUID) TEXT(nvmlDeviceGetSerial) TEXT(nvmlDeviceGetBoardPartNumber)
TEXT(nvmlDeviceGetVbiosVersion) TEXT(nvmlDeviceGetInforomImageVersion)

R nvmlDeviceGetInforomVersion(D d, unsigned object, char *out, unsigned size) {
  Ask a = ask(d, "nvmlDeviceGetInforomVersion", "%u", object);
  text(&a, "", out, size);
  return done(&a);
}

R nvmlDeviceGetMemoryErrorCounter(D d, unsigned type, unsigned counter, unsigned place, uint64_t *v) {
  Ask a = ask(d, "nvmlDeviceGetMemoryErrorCounter", "%u, %u, %u", type, counter, place);
  *v = number(&a, "");
  return done(&a);
}

R nvmlDeviceGetGpuInstanceId(D d, unsigned *v) {
  Ask a = ask(d, "nvmlDeviceGetGpuInstanceId", "");
  unsigned instance = (unsigned)number(&a, ""); /* two compute instances may have the same */
  *v = a.found ? instance : d->instance;
  return a.result;
}

R nvmlDeviceValidateInforom(D d) { Ask a = ask(d, "nvmlDeviceValidateInforom", ""); return done(&a); }

/* --- structs --- */

typedef struct { unsigned gpu, memory; } Utilization;
R nvmlDeviceGetUtilizationRates(D d, Utilization *v) {
  Ask a = ask(d, "nvmlDeviceGetUtilizationRates", "");
  v->gpu = (unsigned)number(&a, ".gpu");
  v->memory = (unsigned)number(&a, ".memory");
  return done(&a);
}

typedef struct { uint64_t total, free, used; } Memory;
R nvmlDeviceGetMemoryInfo(D d, Memory *v) {
  Ask a = ask(d, "nvmlDeviceGetMemoryInfo", "");
  v->total = number(&a, ".total"), v->free = number(&a, ".free"), v->used = number(&a, ".used");
  return done(&a);
}

typedef struct { unsigned version; uint64_t total, reserved, free, used; } Memory2;
R nvmlDeviceGetMemoryInfo_v2(D d, Memory2 *v) {
  Ask a = ask(d, "nvmlDeviceGetMemoryInfo", "%u", v->version);
  v->total = number(&a, ".total"), v->reserved = number(&a, ".reserved");
  v->free = number(&a, ".free"), v->used = number(&a, ".used");
  return done(&a);
}

typedef struct { uint64_t total, free, used; } Bar1;
R nvmlDeviceGetBAR1MemoryInfo(D d, Bar1 *v) {
  Ask a = ask(d, "nvmlDeviceGetBAR1MemoryInfo", "");
  v->total = number(&a, ".bar1Total"), v->free = number(&a, ".bar1Free"), v->used = number(&a, ".bar1Used");
  return done(&a);
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } Pci;

R nvmlDeviceGetPciInfo_v3(D d, Pci *v) {
  Ask a = ask(d, "nvmlDeviceGetPciInfo_v3", "");
  memset(v, 0, sizeof *v);
  text(&a, ".busId", v->address, sizeof v->address);
  return done(&a);
}

R nvmlDeviceGetNvLinkRemotePciInfo_v2(D d, unsigned link, Pci *v) {
  Ask a = ask(d, "nvmlDeviceGetNvLinkRemotePciInfo", "%u", link);
  memset(v, 0, sizeof *v);
  text(&a, ".busId", v->address, sizeof v->address);
  return done(&a);
}

R nvmlDeviceGetRemappedRows(D d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  Ask a = ask(d, "nvmlDeviceGetRemappedRows", "");
  *corrected = (unsigned)number(&a, "[0]"), *uncorrected = (unsigned)number(&a, "[1]");
  *pending = (unsigned)number(&a, "[2]"), *failed = (unsigned)number(&a, "[3]");
  return done(&a);
}

R nvmlDeviceGetRowRemapperHistogram(D d, unsigned v[5]) {
  static const char *const spare[] = {".max", ".high", ".partial", ".low", ".none"};
  Ask a = ask(d, "nvmlDeviceGetRowRemapperHistogram", "");
  for (int i = 0; i < 5; i++) v[i] = (unsigned)number(&a, spare[i]);
  return done(&a);
}

typedef struct { unsigned version; uint64_t count[11]; unsigned exceeded; } Sram;
R nvmlDeviceGetSramEccErrorStatus(D d, Sram *v) {
  static const char *const member[] = {".aggregateUncParity", ".aggregateUncSecDed", ".aggregateCor", ".volatileUncParity",
      ".volatileUncSecDed", ".volatileCor", ".aggregateUncBucketL2", ".aggregateUncBucketSm", ".aggregateUncBucketPcie",
      ".aggregateUncBucketMcu", ".aggregateUncBucketOther"};
  Ask a = ask(d, "nvmlDeviceGetSramEccErrorStatus", "");
  for (int i = 0; i < 11; i++) v->count[i] = number(&a, member[i]);
  v->exceeded = (unsigned)number(&a, ".bThresholdExceeded");
  return done(&a);
}

/* Sixteen bytes from text: hexadecimal digits, anything else between them passed over. */
static void bytes(Ask *a, const char *path, uint8_t *out) {
  Slot *s = part(a, path);
  memset(out, 0, 16);
  int n = 0;
  for (const char *c = s ? s->text : ""; *c && n < 32; c++) {
    const char *digits = "0123456789abcdef", *at = strchr(digits, *c | 32);
    if (at && *at) { out[n / 2] |= (uint8_t)((at - digits) << (n % 2 ? 0 : 4)); n++; }
  }
}

typedef struct { unsigned version; uint8_t cluster[16]; int status; unsigned clique; uint8_t state; unsigned mask; uint8_t summary; } Fabric;
R nvmlDeviceGetGpuFabricInfoV(D d, Fabric *v) {
  Ask a = ask(d, "nvmlDeviceGetGpuFabricInfoV", "");
  bytes(&a, ".clusterUuid", v->cluster);
  v->status = (int)number(&a, ".status"), v->clique = (unsigned)number(&a, ".cliqueId"), v->state = (uint8_t)number(&a, ".state");
  v->mask = (unsigned)number(&a, ".healthMask");
  if (v->version >> 24 >= 3) v->summary = (uint8_t)number(&a, ".healthSummary");
  return done(&a);
}

typedef struct { unsigned version; uint8_t guid[16]; char chassis[16]; uint8_t place[5]; } Platform;
R nvmlDeviceGetPlatformInfo(D d, Platform *v) {
  static const char *const member[] = {".slotNumber", ".trayIndex", ".hostId", ".peerType", ".moduleId"};
  Ask a = ask(d, "nvmlDeviceGetPlatformInfo", "");
  bytes(&a, ".ibGuid", v->guid);
  text(&a, ".chassisSerialNumber", v->chassis, sizeof v->chassis);
  for (int i = 0; i < 5; i++) v->place[i] = (uint8_t)number(&a, member[i]);
  return done(&a);
}

typedef struct { unsigned version; int margin; } Margin;
R nvmlDeviceGetMarginTemperature(D d, Margin *v) {
  Ask a = ask(d, "nvmlDeviceGetMarginTemperature", "");
  v->margin = (int)number(&a, "");
  return done(&a);
}

typedef struct { unsigned version, sensor; int temperature; } Temperature;
R nvmlDeviceGetTemperatureV(D d, Temperature *v) {
  Ask a = ask(d, "nvmlDeviceGetTemperatureV", "%u", v->sensor);
  v->temperature = (int)number(&a, "");
  return done(&a);
}

typedef struct { unsigned version, flag; } Unrepairable;
R nvmlDeviceGetUnrepairableMemoryFlag_v1(D d, Unrepairable *v) {
  Ask a = ask(d, "nvmlDeviceGetUnrepairableMemoryFlag_v1", "");
  v->flag = (unsigned)number(&a, "");
  return done(&a);
}

typedef struct { unsigned version, channel, tpc; } Repair;
R nvmlDeviceGetRepairStatus(D d, Repair *v) {
  Ask a = ask(d, "nvmlDeviceGetRepairStatus", "");
  v->channel = (unsigned)number(&a, "[0]"), v->tpc = (unsigned)number(&a, "[1]");
  return done(&a);
}

/* --- lists: called once for the size, once with room --- */

typedef struct { unsigned pid; uint64_t memory; unsigned instance, compute; } Process;

static R processes(D d, const char *function, unsigned *n, Process *out) {
  Ask a = ask(d, function, "");
  unsigned length = (unsigned)number(&a, ".length"), room = *n;
  *n = length;
  R r = done(&a);
  if (r || !length) return r;
  if (!out || room < length) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < length; i++) {
    Slot *pid = findf("%s[%u].pid", a.key, i), *instance = findf("%s[%u].gpuInstanceId", a.key, i);
    Slot *memory = findf("%s[%u].usedGpuMemory", a.key, i);
    out[i] = (Process){pid ? (unsigned)pid->value.u : 0, memory ? memory->value.u : ~0ull,
                       instance ? (unsigned)instance->value.u : ~0u, ~0u};
  }
  return 0;
}

#define PROCESSES(name) R name(D d, unsigned *n, Process *out) { return processes(d, #name, n, out); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2) PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2) PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)

R nvmlDeviceGetRetiredPages(D d, unsigned cause, unsigned *n, uint64_t *out) {
  Ask a = ask(d, "nvmlDeviceGetRetiredPages", "%u", cause);
  unsigned length = (unsigned)number(&a, ".length"), room = *n;
  *n = length;
  R r = done(&a);
  if (r) return r;
  if (!out || room < length) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < length; i++) out[i] = i << 12;
  return 0;
}

/* --- batched field values --- */

typedef struct { uint32_t id, scope; int64_t stamp, latency; int32_t type, result; uint64_t value; } Entry;

#ifdef CONSTANT /* for benchmarks: no look-up, so that what is measured is the binding */
R nvmlDeviceGetFieldValues(D d, int n, Entry *e) {
  for (int i = 0; i < n; i++, e++) e->stamp = 1700000000000000, e->latency = 0, e->result = 0, e->type = 3, e->value = d->gpu + e->id;
  return 0;
}
#else
R nvmlDeviceGetFieldValues(D d, int n, Entry *e) {
  count("-", "nvmlDeviceGetFieldValues");
  R r = state_of(d);
  if (r) return r;
  Slot *clock = findf("%s/timestamp", d->key);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (int i = 0; i < n; i++, e++) {
    char question[48];
    snprintf(question, sizeof question, e->scope ? "field %u scope %u" : "field %u", e->id, e->scope);
    count(d->key, question);
    Slot *s = findf("%s/%s", d->key, question);
    e->stamp = clock ? (int64_t)clock->value.u : now.tv_sec * 1000000ll + now.tv_nsec / 1000;
    e->latency = 0;
    e->result = s ? act(s->result) : NOT_SUPPORTED;
    e->type = s ? s->type : 0;
    if (s) memcpy(&e->value, &s->value, s->type == 6 ? 2 : s->type == 1 || s->type == 5 ? 4 : 8); /* upper bytes stay as they were */
  }
  return 0;
}

#endif

/* --- GPM --- */

typedef struct { unsigned id; int result; double value; void *info[3]; } Metric;
typedef struct { unsigned version, n; D *first, *second; Metric metric[]; } Metrics;

typedef struct { unsigned version, supported; } Support;
R nvmlGpmQueryDeviceSupport(D d, Support *v) {
  Ask a = ask(d, "nvmlGpmQueryDeviceSupport", "");
  v->supported = (unsigned)number(&a, ".isSupportedDevice");
  return done(&a);
}

R nvmlGpmSampleAlloc(D **sample) { count("-", "nvmlGpmSampleAlloc"); return (*sample = calloc(1, sizeof **sample)) ? 0 : 20; }
R nvmlGpmSampleFree(D *sample) { free(sample); return 0; }

R nvmlGpmSampleGet(D d, D *sample) {
  Ask a = ask(d, "nvmlGpmSampleGet", "");
  Slot *supported = findf("%s/nvmlGpmQueryDeviceSupport().isSupportedDevice", d->key);
  *sample = d;
  return a.result ? a.result : supported && supported->value.u ? 0 : NOT_SUPPORTED;
}

R nvmlGpmMigSampleGet(D d, unsigned instance, D *sample) {
  R r = nvmlGpmSampleGet(d, sample);
  if (instance < INSTANCES) *sample = &instances[d->gpu][instance];
  return r;
}

R nvmlGpmMetricsGet(Metrics *m) {
  if (!m->second || !*m->second || *m->first != *m->second) return INVALID_ARGUMENT;
  R r = ask(*m->second, "nvmlGpmMetricsGet", "").result;
  for (unsigned i = 0; !r && i < m->n; i++) {
    Slot *s = findf("%s/gpm %u", (*m->second)->key, m->metric[i].id);
    m->metric[i].result = s ? act(s->result) : NOT_SUPPORTED;
    m->metric[i].value = !s ? 0 : s->type == 0 ? s->value.d : (double)s->value.u;
  }
  return r;
}

/* --- events --- */

typedef struct { uint64_t seen, types[GPUS]; } Set;
typedef struct { D device; uint64_t type, data; unsigned instance, compute; } Event;

static uint64_t posted(void) { Slot *s = find("-/events"); return s ? __atomic_load_n(&s->value.u, __ATOMIC_ACQUIRE) : 0; }

R nvmlEventSetCreate(Set **set) {
  R r = state_of(NULL);
  if (!r) { *set = calloc(1, sizeof **set); (*set)->seen = posted(); }
  return r;
}

R nvmlDeviceRegisterEvents(D d, uint64_t types, Set *set) {
  Ask a = ask(d, "nvmlDeviceRegisterEvents", "");
  if (!a.result) set->types[d->gpu] |= types;
  return a.result;
}

R nvmlEventSetWait_v2(Set *set, Event *e, unsigned timeout_ms) {
  struct timespec pause_1ms = {0, 1000000};
  for (unsigned waited = 0;; waited++) {
    R r = code(find("-/*"));
    if (!r) r = code(find("-/nvmlEventSetWait_v2()"));
    if (r) return r;
    uint64_t until = posted();
    if (until > EVENTS && set->seen < until - EVENTS) set->seen = until - EVENTS;
    while (set->seen < until) {
      Slot *s = findf("-/event %u", (unsigned)(set->seen++ % EVENTS));
      unsigned long gpu, type, data, instance, compute;
      if (!s || sscanf(s->text, "%lu %lu %lu %lu %lu", &gpu, &type, &data, &instance, &compute) != 5 || gpu >= GPUS) continue;
      if (!(set->types[gpu] & type)) continue;
      *e = (Event){&gpus[gpu], type, data, (unsigned)instance, (unsigned)compute};
      return 0;
    }
    if (waited >= timeout_ms) return TIMEOUT;
    nanosleep(&pause_1ms, NULL);
  }
}

R nvmlEventSetFree(Set *set) { free(set); return 0; }

/* --- the library and its devices --- */

R nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (!table) map_table();
  if (!table) return DRIVER_NOT_LOADED;
  for (unsigned g = 0; g < GPUS; g++) {
    gpus[g].gpu = g;
    snprintf(gpus[g].key, sizeof gpus[g].key, "%u", g);
    for (unsigned i = 0; i < INSTANCES; i++) {
      instances[g][i].gpu = g, instances[g][i].instance = i;
      snprintf(instances[g][i].key, sizeof instances[g][i].key, "%u.%u", g, i);
    }
  }
  count("-", "nvmlInit");
  return code(find("-/nvmlInit()"));
}

R nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
R nvmlShutdown(void) { return code(find("-/nvmlShutdown()")); }
const char *nvmlErrorString(R r) { (void)r; return "scripted error"; }

R nvmlSystemGetDriverVersion(char *out, unsigned size) { Ask a = ask(NULL, "nvmlSystemGetDriverVersion", ""); text(&a, "", out, size); return done(&a); }
R nvmlSystemGetNVMLVersion(char *out, unsigned size) { Ask a = ask(NULL, "nvmlSystemGetNVMLVersion", ""); text(&a, "", out, size); return done(&a); }
R nvmlSystemGetCudaDriverVersion_v2(int *v) { Ask a = ask(NULL, "nvmlSystemGetCudaDriverVersion_v2", ""); *v = (int)number(&a, ""); return done(&a); }
R nvmlDeviceGetCount_v2(unsigned *v) { Ask a = ask(NULL, "nvmlDeviceGetCount", ""); *v = (unsigned)number(&a, ""); return done(&a); }

R nvmlDeviceGetHandleByIndex_v2(unsigned index, D *d) {
  Ask a = ask(NULL, "nvmlDeviceGetHandleByIndex", "%u", index);
  unsigned gpu = (unsigned)number(&a, "");
  if (!a.result && index < GPUS) a.result = code(findf("%u/*", index));
  if (a.result) return a.result;
  if (!a.found || gpu >= GPUS) return INVALID_ARGUMENT;
  *d = &gpus[gpu];
  return 0;
}

R nvmlDeviceGetMigDeviceHandleByIndex(D d, unsigned index, D *mig) {
  Ask a = ask(d, "nvmlDeviceGetMigDeviceHandleByIndex", "%u", index);
  unsigned instance = (unsigned)number(&a, "");
  if (a.result) return a.result;
  if (!a.found || instance >= INSTANCES) return NOT_FOUND;
  *mig = &instances[d->gpu][instance];
  return 0;
}
