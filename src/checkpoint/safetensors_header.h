#pragma once
// The safetensors container: 8 bytes little-endian length N, N bytes of JSON
// {"NAME": {"dtype", "shape", "data_offsets": [begin, end]}, …, "__metadata__": {string: string}},
// then the tensors' bytes, row-major and little-endian, without gaps.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace viaduct {

struct SafetensorsEntry {
  TensorInfo info;
  int64_t begin = 0;  // bytes from the start of the data, which begins at `data_offset`
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;
  int64_t data_bytes = 0;
};

/// Longest header that is read or written, as in the reference implementation.
inline constexpr uint64_t kSafetensorsHeaderLimit = 100'000'000;

/// Reads and validates the header of `file`, the whole content of a safetensors file. IoError that
/// starts with `where` and names the tensor unless every length and offset is inside the file, the
/// tensors tile the data without gap or overlap, and each has the length of shape × dtype. BOOL is
/// read as u8.
SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& where);

/// The first bytes of a file that holds `tensors` one after the other: length and JSON, padded so
/// that the data starts at a multiple of 8.
std::string make_safetensors_header(const std::vector<TensorInfo>& tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace viaduct
