#pragma once
// What the project uses of NVTX, for builds without a toolkit. Returns as the toolkit's: the depth
// of the range, counted from 0; −2 if there is none to end.

extern "C" {
int nvtxRangePushA(const char* message);
int nvtxRangePop();
}
