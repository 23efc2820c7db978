#pragma once
// The part of NVTX that the project uses, for builds without a toolkit. Return values are the
// toolkit's: the depth of the range, counted from 0; −2 if there is none to end.

extern "C" {
int nvtxRangePushA(const char* message);
int nvtxRangePop();
}
