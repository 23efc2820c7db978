#include "checkpoint/gguf_quantized_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/run_tasks.h"
#include "base/units.h"
#include "checkpoint/gguf_search.h"
#include "tensor/gguf_blocks.h"

namespace viaduct {
namespace {

constexpr int64_t kElementsOfTask = 1 << 16;

/// Elements of a Q8_0 block: int8 codes after an f16 scale.
constexpr int64_t kQ8Block = 32;
constexpr int64_t kQ8BlockBytes = 2 + kQ8Block;

void check_rows(const Tensor& tensor, GgufTensorType type, const std::string& name) {
  const int64_t block = gguf_type(type).block;
  VIADUCT_CHECK(ShapeError, tensor.rank() > 0 && tensor.dim(-1) % block == 0,
                "tensor \"{}\": {} has rows that are not a multiple of {}", shown_name(name),
                describe(tensor), block);
}

/// Elements from `begin` on.
void read_values(const Tensor& tensor, int64_t begin, std::span<float> to) {
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    const auto* from = tensor.data<decltype(zero)>() + begin;
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  });
}

/// Writes the blocks [begin, end) of a tensor.
class BlocksTask {
 public:
  BlocksTask(const Tensor& tensor, GgufTensorType type, std::string_view name)
      : tensor_(tensor),
        type_(gguf_type(type)),
        count_(std::string(name), std::string(type_.name)) {}

  void write(int64_t begin, int64_t end, std::byte* to) {
    const GgufBlockForm form = gguf_block_form(type_.type);
    float values[kLargestGgufBlock], rounded[kLargestGgufBlock];
    const std::span<float> block(values, static_cast<size_t>(type_.block));
    for (int64_t number = begin; number < end; ++number, to += type_.bytes) {
      read_values(tensor_, number * type_.block, block);
      const auto bad = std::count_if(block.begin(), block.end(), [](float value) {
        return !(std::fabs(value) <= kLargestGgufValue);
      });
      refused_ += bad;
      if (bad > 0) continue;
      encode_gguf_block(type_.type, search_gguf_block(form, block), to);
      decode_gguf_elements(type_.type, to, 0, type_.block, rounded);
      for (size_t i = 0; i < block.size(); ++i)
        count_.add(static_cast<double>(values[i]), static_cast<double>(rounded[i]));
    }
  }

  int64_t refused() const { return refused_; }
  void finish(Rounding& total) { count_.finish(total); }

 private:
  const Tensor& tensor_;
  const GgufType& type_;
  RoundingCount count_;
  int64_t refused_ = 0;
};

}  // namespace

Tensor quantized_tensor(const Tensor& tensor, GgufTensorType type, const std::string& name,
                        ThreadPool* pool, Rounding& total) {
  if (type == GgufTensorType::q8_0) return q8_0_blocks(tensor, name, total);
  check_rows(tensor, type, name);
  const GgufType& known = gguf_type(type);
  const int64_t blocks = tensor.elements() / known.block;
  const int64_t blocks_of_task = kElementsOfTask / known.block;
  const int64_t tasks = (blocks + blocks_of_task - 1) / blocks_of_task;
  Tensor result = host_tensor(DType::u8, {blocks * known.bytes});
  auto* bytes = static_cast<std::byte*>(result.raw());
  std::vector<Rounding> parts(static_cast<size_t>(tasks));
  std::vector<int64_t> refused(static_cast<size_t>(tasks));
  run_tasks(pool, tasks, [&](int64_t task, int) {
    const int64_t begin = task * blocks_of_task;
    BlocksTask part(tensor, type, name);
    part.write(begin, std::min(begin + blocks_of_task, blocks), bytes + begin * known.bytes);
    refused[static_cast<size_t>(task)] = part.refused();
    part.finish(parts[static_cast<size_t>(task)]);
  });
  int64_t all_refused = 0;
  for (const int64_t count : refused) all_refused += count;
  VIADUCT_CHECK(
      IoError, all_refused == 0,
      "tensor \"{}\": {} of its {} elements {} not finite, or beyond {} in magnitude, and "
      "{} cannot store {}",
      shown_name(name), all_refused, tensor.elements(), all_refused == 1 ? "is" : "are",
      kLargestGgufValue, known.name, all_refused == 1 ? "it" : "them");
  for (const Rounding& part : parts) total.add(part);  // in order: sums are the same for any pool
  return result;
}

Tensor q8_0_blocks(const Tensor& tensor, const std::string& name, Rounding& total) {
  check_rows(tensor, GgufTensorType::q8_0, name);
  Tensor result = host_tensor(DType::u8, {gguf_bytes(GgufTensorType::q8_0, tensor.elements())});
  auto* block = static_cast<std::byte*>(result.raw());
  RoundingCount count(name, "q8_0");
  float values[kQ8Block] = {};
  int64_t bad_blocks = 0;
  for_each_value(tensor, [&](int64_t i, double value) {
    values[i % kQ8Block] = static_cast<float>(value);
    if (i % kQ8Block != kQ8Block - 1) return;
    float largest = 0;
    bool finite = true;
    for (const float v : values) {
      largest = std::max(largest, std::fabs(v));
      finite = finite && std::isfinite(v);
    }
    const float scale = largest / 127;
    const float inverse = scale < std::numeric_limits<float>::min() ? 0 : 1 / scale;
    const auto stored = static_cast<float16>(scale);
    if (!finite || !std::isfinite(static_cast<float>(stored))) {
      ++bad_blocks;
      return;
    }
    std::memcpy(block, &stored, sizeof(stored));
    for (int64_t j = 0; j < kQ8Block; ++j) {
      const float code = std::round(values[j] * inverse);
      block[2 + j] = static_cast<std::byte>(static_cast<int8_t>(code));
      count.add(values[j],
                static_cast<double>(code) * static_cast<double>(static_cast<float>(stored)));
    }
    block += kQ8BlockBytes;
  });
  VIADUCT_CHECK(IoError, bad_blocks == 0,
                "tensor \"{}\": {} of its {} elements that are not finite, or a scale "
                "outside fp16's range; q8_0 cannot store {}",
                shown_name(name), bad_blocks,
                counted(tensor.elements() / kQ8Block, "block has", "blocks have"),
                bad_blocks == 1 ? "it" : "them");
  count.finish(total);
  return result;
}

}  // namespace viaduct
