#include "checkpoint/check_finite.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

struct NotFinite {
  int64_t count = 0, first = -1;
};

/// An exponent of all ones is infinity or NaN; counted without a branch, at the speed of memory.
template <class Bits>
NotFinite not_finite(const Tensor& tensor, Bits exponent) {
  NotFinite found;
  const auto* bytes = static_cast<const std::byte*>(tensor.raw());
  const auto at = [&](int64_t i) {
    Bits bits = 0;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof(Bits), sizeof(Bits));
    return (bits & exponent) == exponent;
  };
  const int64_t n = tensor.elements();
  for (int64_t i = 0; i < n; ++i) found.count += at(i) ? 1 : 0;
  if (found.count == 0) return found;
  for (found.first = 0; !at(found.first);) ++found.first;
  return found;
}

NotFinite not_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f64:
      return not_finite<uint64_t>(tensor, 0x7ffull << 52);
    case DType::f32:
      return not_finite<uint32_t>(tensor, 0x7f800000u);
    case DType::f16:
      return not_finite<uint16_t>(tensor, 0x7c00);
    case DType::bf16:
      return not_finite<uint16_t>(tensor, 0x7f80);
    default:
      return {};
  }
}

}  // namespace

void check_finite(const Tensor& tensor, const std::string& name, const std::string& where) {
  const NotFinite found = not_finite(tensor);
  VIADUCT_CHECK(IoError, found.count == 0,
                "{}: {}: {} of {} values {} NaN or infinite, the first at element {}", where,
                shown_name(name), found.count, tensor.elements(), found.count == 1 ? "is" : "are",
                found.first);
}

void check_finite(const TensorSource& source) {
  for (const TensorInfo& info : source.tensors()) {
    check_finite(source.tensor(info.name), info.name, source.where());
    source.check_read();
  }
}

}  // namespace viaduct
