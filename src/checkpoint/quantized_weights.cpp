#include "checkpoint/quantized_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json_reader.h"
#include "tensor/number_formats.h"
#include "tensor/round_once.h"

namespace viaduct {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr int64_t kMxGroup = 32;

bool is_fp8(DType dtype) {
  return dtype == DType::e4m3 || dtype == DType::e5m2;
}

/// Scales that quantized products of activations and caches use.
bool scales_activations(const std::string& name) {
  static constexpr std::string_view kSuffixes[] = {
      ".input_scale", ".output_scale",   ".k_scale",         ".v_scale",
      ".q_scale",     ".input_scale_ub", ".activation_scale"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

using Codes = std::array<double, 256>;

template <class T>
Codes decoded_codes() {
  Codes codes{};
  for (size_t bits = 0; bits < codes.size(); ++bits)
    codes[bits] = T::Codes::decode(static_cast<uint8_t>(bits));
  return codes;
}

const Codes& codes_of(DType dtype) {
  static const Codes e4m3 = decoded_codes<float8_e4m3>(), e5m2 = decoded_codes<float8_e5m2>();
  return dtype == DType::e4m3 ? e4m3 : e5m2;
}

/// E2M1: OCP Microscaling Formats 1.0, section 5.3.3.
constexpr double kE2M1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

double scale_at(const Tensor& scales, int64_t index, const std::string& name) {
  double scale = 0;
  switch (scales.dtype()) {
    case DType::u8:
    case DType::e8m0: {
      float8_e8m0 exponent;
      exponent.bits = static_cast<const uint8_t*>(scales.raw())[index];
      scale = static_cast<float>(exponent);
      break;
    }
    default:
      dispatch_floating(scales.dtype(), [&](auto zero) {
        scale = static_cast<float>(scales.data<decltype(zero)>()[index]);  // of FP64 rounded
      });
  }
  VIADUCT_CHECK(IoError, std::isfinite(scale), "tensor \"{}\": scale {} is {}", shown_name(name),
                index, scale);
  return scale;
}

bfloat16 product(double code, double scale, const std::string& name) {
  const double exact = code * scale;  // 4 bits by 24
  const auto rounded = static_cast<bfloat16>(rounded_to_odd(exact));
  VIADUCT_CHECK(IoError, std::isfinite(static_cast<float>(rounded)) || !std::isfinite(exact),
                "tensor \"{}\": {} × {} is beyond the largest number of bf16", shown_name(name),
                code, scale);
  return rounded;
}

int64_t up(int64_t elements, int64_t block) {
  return (elements + block - 1) / block;
}

}  // namespace

QuantizedWeights::QuantizedWeights(std::unique_ptr<TensorSource> stored,
                                   const QuantizationConfig& config)
    : DerivedSource(std::move(stored)) {
  std::unordered_map<std::string, bool> scales;  // those that a matrix uses
  for (const TensorInfo& info : stored_->tensors()) {
    TensorInfo made = info;
    if (is_fp8(info.dtype)) {
      VIADUCT_CHECK(IoError, !config.packed_mxfp4,
                    "{}: tensor \"{}\" is {}, but quant_method is {}", where(),
                    shown_name(info.name), dtype_name(info.dtype), config.method);
      made.dtype = DType::bf16;
      coded_[info.name] = coded(info, config);
    } else if (config.packed_mxfp4 && info.name.ends_with(kBlocks)) {
      made.name.resize(made.name.size() - kBlocks.size());
      coded_[made.name] = packed(info.name, made);
    } else {
      continue;
    }
    scales[coded_[made.name].scales] = true;
    index_[made.name] = infos_.size();
    infos_.push_back(made);
  }
  for (const TensorInfo& info : stored_->tensors()) {
    const bool values = is_fp8(info.dtype) || (config.packed_mxfp4 && info.name.ends_with(kBlocks));
    if (values || scales.contains(info.name) || scales_activations(info.name)) continue;
    VIADUCT_CHECK(IoError, index_.emplace(info.name, infos_.size()).second,
                  "{}: tensor \"{}\" appears twice, quantized and not", where(),
                  shown_name(info.name));
    infos_.push_back(info);
  }
}

QuantizedWeights::Coded QuantizedWeights::coded(const TensorInfo& codes,
                                                const QuantizationConfig& config) const {
  const std::string shown = shown_name(codes.name);
  VIADUCT_CHECK(IoError, codes.shape.rank() == 2,
                "{}: tensor \"{}\": FP8 codes {}, expected a matrix", where(), shown,
                to_string(codes.shape));
  const TensorInfo* scales = nullptr;
  for (const char* suffix : {"_scale_inv", "_scale"}) {
    if (scales == nullptr) scales = stored_->find(codes.name + suffix);
  }
  VIADUCT_CHECK(IoError, scales != nullptr,
                "{}: tensor \"{}\" has FP8 codes, but neither {}_scale_inv nor {}_scale is there",
                where(), shown, shown, shown);
  const bool exponents = scales->dtype == DType::u8 || scales->dtype == DType::e8m0;
  VIADUCT_CHECK(IoError,
                exponents ? config.exponents || scales->dtype == DType::e8m0
                          : is_floating(scales->dtype) && !config.exponents,
                "{}: tensor \"{}\": scales are {}, expected {} for {}", where(), shown,
                dtype_name(scales->dtype), config.exponents ? "u8 exponents" : "a floating format",
                config.method);
  const int64_t rows = codes.shape[0], columns = codes.shape[1];
  const Shape& found = scales->shape;
  if (config.block) {
    const auto [height, width] = *config.block;
    const Shape expected{up(rows, height), up(columns, width)};
    VIADUCT_CHECK(IoError, found == expected,
                  "{}: tensor \"{}\" {}: scales {}, expected {} for blocks of {} × {}", where(),
                  shown, to_string(codes.shape), to_string(found), to_string(expected), height,
                  width);
    return {codes.name, scales->name, height, width};
  }
  const bool whole = found.elements() == 1;
  const bool by_row =
      (found.rank() == 1 || (found.rank() == 2 && found[1] == 1)) && found[0] == rows;
  VIADUCT_CHECK(IoError, whole || by_row,
                "{}: tensor \"{}\" {}: scales {}, expected one, or one for each row ([{}, 1])",
                where(), shown, to_string(codes.shape), to_string(found), rows);
  return {codes.name, scales->name, whole ? std::max<int64_t>(rows, 1) : 1,
          std::max<int64_t>(columns, 1)};
}

QuantizedWeights::Coded QuantizedWeights::packed(const std::string& name, TensorInfo& info) const {
  const TensorInfo* scales = stored_->find(info.name + std::string(kScales));
  const Shape stored = info.shape;  // [E, N, K / 32, 16]
  VIADUCT_CHECK(IoError, info.dtype == DType::u8 && stored.rank() == 4 && stored[3] == kMxGroup / 2,
                "{}: tensor \"{}\" is {} {}, expected MXFP4 codes u8 [E, N, K / 32, 16]", where(),
                shown_name(name), dtype_name(info.dtype), to_string(stored));
  VIADUCT_CHECK(IoError, scales != nullptr, "{}: tensor \"{}\" has no {}{}", where(),
                shown_name(name), shown_name(info.name), kScales);
  const Shape expected{stored[0], stored[1], stored[2]};
  VIADUCT_CHECK(
      IoError,
      (scales->dtype == DType::u8 || scales->dtype == DType::e8m0) && scales->shape == expected,
      "{}: tensor \"{}\" is {} {}, expected u8 {}", where(), shown_name(scales->name),
      dtype_name(scales->dtype), to_string(scales->shape), to_string(expected));
  // Hugging Face's code computes x · W with W [E, K, N].
  info.dtype = DType::bf16;
  info.shape = {stored[0], stored[2] * kMxGroup, stored[1]};
  return {name, scales->name, 1, kMxGroup, true};
}

const TensorInfo* QuantizedWeights::find(const std::string& name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &infos_[at->second];
}

Tensor QuantizedWeights::decode(const TensorInfo& info, const Coded& coded, int64_t begin,
                                int64_t end) const {
  const Tensor values = stored_->tensor(coded.values), scales = stored_->tensor(coded.scales);
  Shape shape = info.shape;
  shape[0] = end - begin;
  Tensor result = host_tensor(DType::bf16, shape);
  auto* to = result.data<bfloat16>();
  const auto* code = static_cast<const uint8_t*>(values.raw());
  if (coded.packed) {
    const int64_t inner = info.shape[1], outer = info.shape[2];  // K, N
    for (int64_t expert = begin; expert < end; ++expert) {
      for (int64_t n = 0; n < outer; ++n) {
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at = (expert * outer + n) * inner + k;
          const int bits = k % 2 == 0 ? code[at / 2] & 15 : code[at / 2] >> 4;
          to[((expert - begin) * inner + k) * outer + n] =
              product(kE2M1[bits], scale_at(scales, at / kMxGroup, info.name), info.name);
        }
      }
    }
    return result;
  }
  const Codes& decoded = codes_of(values.dtype());
  const int64_t columns = info.shape[1], across = up(columns, coded.columns);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t group = 0; group < across; ++group) {
      const double scale = scale_at(scales, row / coded.rows * across + group, info.name);
      const int64_t last = std::min(columns, (group + 1) * coded.columns);
      for (int64_t column = group * coded.columns; column < last; ++column) {
        to[(row - begin) * columns + column] =
            product(decoded[code[row * columns + column]], scale, info.name);
      }
    }
  }
  return result;
}

Tensor QuantizedWeights::tensor(const std::string& name) const {
  const TensorInfo* info = find(name);
  if (info == nullptr) fail_missing(name);
  const auto at = coded_.find(name);
  if (at == coded_.end()) return stored_->tensor(name);
  const Tensor result = decode(*info, at->second, 0, info->shape[0]);
  check_read();
  return result;
}

void QuantizedWeights::read_into(const std::string& name, const Piece& piece,
                                 std::byte* destination) const {
  const TensorInfo* info = find(name);
  if (info == nullptr) fail_missing(name);
  const auto at = coded_.find(name);
  if (at == coded_.end()) return stored_->read_into(name, piece, destination);
  check_inside(name, info->shape, piece);
  if (piece.elements() == 0) return;
  const int64_t slice = piece.box.size.without_first().elements();
  Box box = whole_box(info->shape);
  box.begin[0] = piece.box.begin[0] + piece.begin / slice;
  box.size[0] = piece.box.begin[0] + up(piece.end, slice) - box.begin[0];
  const Tensor slices = decode(*info, at->second, box.begin[0], box.begin[0] + box.size[0]);
  copy_shared(whole_piece(box), static_cast<const std::byte*>(slices.raw()), piece, destination,
              dtype_bytes(DType::bf16));
  check_read();
}

}  // namespace viaduct
