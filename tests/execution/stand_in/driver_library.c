/* The calls of the NVIDIA driver's libraries that the measuring process makes through ctypes: every one is noted in the
   file that STAND_IN_LOG names, and the one that STAND_IN_REFUSES names fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int noted(const char *name) {
    const char *path = getenv("STAND_IN_LOG"), *refused = getenv("STAND_IN_REFUSES");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s\n", name);
        fclose(log);
    }
    return refused && strcmp(refused, name) == 0 ? 999 : 0;
}

#define STREAM ((void *)0xC0DE)
static int right_stream(void *stream) { return stream == STREAM ? 0 : 400; }

int cuStreamBeginCapture_v2(void *stream, int mode) { return right_stream(stream) | (mode != 1) | noted(__func__); }
int cuStreamEndCapture(void *stream, void **graph) {
    *graph = (void *)0x6A;
    return right_stream(stream) | noted(__func__);
}
int cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long flags) {
    *ready = (void *)0x6B;
    return (graph != (void *)0x6A) | (flags != 0) | noted(__func__);
}
int cuGraphLaunch(void *ready, void *stream) { return (ready != (void *)0x6B) | right_stream(stream) | noted(__func__); }
int cuGraphDestroy(void *graph) { return (graph != (void *)0x6A) | noted(__func__); }
int cuGraphExecDestroy(void *ready) { return (ready != (void *)0x6B) | noted(__func__); }

int nvmlInit_v2(void) { return noted(__func__); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    *device = (void *)0x6C;
    return strcmp(bus, "0000:00:00.0") != 0 | noted(__func__);
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "580.0.stand-in");
    return noted(__func__);
}
int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *clock) {
    static unsigned looks = 0;
    *clock = kind == 1 ? 1980 - 15 * (looks++ % 2) : 3201;
    return (device != (void *)0x6C) | noted(__func__);
}
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees) {
    *degrees = 41;
    return (device != (void *)0x6C) | (sensor != 0) | noted(__func__);
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 312400;
    return (device != (void *)0x6C) | noted(__func__);
}
