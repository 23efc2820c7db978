#pragma once
// The 64 bytes that shape the AMX tile registers (Intel 64 manual, volume 1, section 18.2).

#include <cstdint>

namespace viaduct::cpu {

/// All eight tiles 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

}  // namespace viaduct::cpu
