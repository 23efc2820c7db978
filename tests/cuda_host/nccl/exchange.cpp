#include "cuda_host/nccl/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/rank_order_sum.h"
#include "tensor/dtype.h"

namespace nccl_double {
namespace {

using viaduct::DType;
using viaduct::ReduceOp;

constexpr std::array kKinds{"all_reduce", "all_gather", "reduce_scatter",
                            "broadcast",  "send",       "receive"};

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt64:
      return DType::i64;
    case ncclFloat16:
      return DType::f16;
    case ncclFloat32:
      return DType::f32;
    case ncclFloat64:
      return DType::f64;
    case ncclBfloat16:
      return DType::bf16;
    default:
      return DType::u8;
  }
}

ReduceOp op_of(ncclRedOp_t op) {
  return op == ncclAvg ? ReduceOp::average : op == ncclMax ? ReduceOp::max : ReduceOp::sum;
}

const std::byte* bytes_at(const void* data) {
  return static_cast<const std::byte*>(data);
}

void divide(DType dtype, std::byte* values, int64_t count, int by) {
  const bool floating = viaduct::dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T* at = reinterpret_cast<T*>(values);
    for (int64_t i = 0; i < count; ++i)
      at[i] = static_cast<T>(static_cast<A>(at[i]) / static_cast<A>(by));
  });
  auto* whole = reinterpret_cast<int64_t*>(values);
  for (int64_t i = 0; !floating && i < count; ++i) whole[i] /= by;
}

/// Part c of `count` elements goes around the ring from rank c + 1 to rank c, and is rounded at
/// each rank.
void sum_along_ring(DType dtype, ReduceOp op, const std::vector<const std::byte*>& sources,
                    std::byte* out, int64_t count) {
  const auto ranks = static_cast<int64_t>(sources.size());
  const int64_t size = viaduct::dtype_bytes(dtype);
  const ReduceOp step = op == ReduceOp::max ? ReduceOp::max : ReduceOp::sum;
  for (int64_t part = 0; part < ranks; ++part) {
    const int64_t begin = count * part / ranks, end = count * (part + 1) / ranks;
    const auto source = [&](int64_t turn) {
      return sources[static_cast<size_t>((part + 1 + turn) % ranks)] + begin * size;
    };
    std::byte* const sum = out + begin * size;
    std::memcpy(sum, source(0), static_cast<size_t>((end - begin) * size));
    for (int64_t turn = 1; turn < ranks; ++turn) {
      const std::array<const std::byte*, 2> two{sum, source(turn)};
      viaduct::reduce_in_rank_order(dtype, step, two, sum, end - begin);
    }
    if (op == ReduceOp::average) divide(dtype, sum, end - begin, static_cast<int>(ranks));
  }
}

}  // namespace

const char* kind_name(Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

size_t bytes_of(const Call& call) {
  return call.count * static_cast<size_t>(viaduct::dtype_bytes(dtype_of(call.type)));
}

std::string signature(const Call& call) {
  return std::string(kind_name(call.kind)) + " of " + std::to_string(call.count) + " of type " +
         std::to_string(call.type) + ", operation " + std::to_string(call.op) + ", root " +
         std::to_string(call.peer);
}

Round::Round(const Call& first, int ranks)
    : call(first), parts(static_cast<size_t>(ranks)), came(static_cast<size_t>(ranks)) {}

bool Round::all_came() const {
  return std::all_of(came.begin(), came.end(), [](bool one) { return one; });
}

void Round::exchange(Sums sums) {
  if (done) return;
  done = true;
  const size_t bytes = bytes_of(call), ranks = parts.size();
  const bool reduces = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
  std::string whole;  // all ranks' results are parts of this
  if (reduces) {
    const size_t all = call.kind == Kind::all_reduce ? bytes : bytes * ranks;
    whole.resize(all);
    std::vector<const std::byte*> sources;
    for (const Call& part : parts) sources.push_back(bytes_at(part.in));
    const DType dtype = dtype_of(call.type);
    const int64_t count = static_cast<int64_t>(all) / viaduct::dtype_bytes(dtype);
    auto* const out = reinterpret_cast<std::byte*>(whole.data());
    if (sums == Sums::along_a_ring)
      sum_along_ring(dtype, op_of(call.op), sources, out, count);
    else
      viaduct::reduce_in_rank_order(dtype, op_of(call.op), sources, out, count);
  } else if (call.kind == Kind::all_gather) {
    for (const Call& part : parts) whole.append(static_cast<const char*>(part.in), bytes);
  } else {
    const Call& root = parts[static_cast<size_t>(call.peer)];
    whole.assign(static_cast<const char*>(root.in), bytes);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    results.push_back(call.kind == Kind::reduce_scatter ? whole.substr(rank * bytes, bytes)
                                                        : whole);
    std::memset(parts[rank].out, 0xff, results.back().size());
  }
}

void Round::leave(int rank) const {
  const auto mine = static_cast<size_t>(rank);
  std::memcpy(parts[mine].out, results[mine].data(), results[mine].size());
}

void Message::leave(bool receiver) {
  if (!read) {
    read = true;
    data.assign(static_cast<const char*>(in), bytes);
    std::memset(out, 0xff, bytes);
  }
  if (receiver) std::memcpy(out, data.data(), bytes);
}

}  // namespace nccl_double
