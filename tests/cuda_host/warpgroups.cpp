#include "cuda_host/warpgroups.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda_host/emulator.h"
#include "cuda_host/small_floats.h"

namespace cuda_host {
namespace {

constexpr size_t kPiece = 16;  // bytes whose writer is known
constexpr int kRows = 64;      // of a product
constexpr int kContractedBytes = 32;

size_t bytes_of(Element element) {
  return element == Element::bf16 || element == Element::f16 ? 2 : 1;
}
int depth_of(Element element) {
  return kContractedBytes / static_cast<int>(bytes_of(element));
}

float value_of(const char* at, Element element) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, bytes_of(element));
  switch (element) {
    case Element::bf16:
      return std::bit_cast<float>(uint32_t{bits} << 16);
    case Element::f16:
      return static_cast<float>(std::bit_cast<_Float16>(bits));
    case Element::e4m3:
      return e4m3_value(static_cast<uint8_t>(bits));
    case Element::e5m2:
      break;
  }
  return e5m2_value(static_cast<uint8_t>(bits));
}

void poison(float* d, size_t count) {
  std::memset(d, 0xff, count * sizeof(float));
}
bool is_poisoned(const float* d, size_t count) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(d);
  return std::all_of(bytes, bytes + count * sizeof(float), [](unsigned b) { return b == 0xff; });
}

}  // namespace

void Warpgroups::begin_block(int threads, const char* memory, size_t bytes) {
  threads_.assign(static_cast<size_t>(threads), {});
  groups_.assign(static_cast<size_t>(threads / kGroupThreads), {});
  memory_ = memory, bytes_ = bytes;
  writers_.assign((bytes + kPiece - 1) / kPiece, 0);
  reads_ = writers_;
}

Warpgroups::Sums* Warpgroups::find(Thread& thread, const float* d) {
  const auto found = std::ranges::find(thread.sums, d, &Sums::d);
  return found == thread.sums.end() ? nullptr : &*found;
}

/// A chain of products on the same sums needs one fence, before the first.
void Warpgroups::take(Thread& thread, float* d, size_t product, size_t count) {
  if (Sums* const under_way = find(thread, d)) {
    under_way->last = product;
    return;
  }
  if (!thread.fenced) emulator_.fail("wgmma: sums that no wgmma.fence precedes");
  thread.sums.push_back({d, product, std::vector<float>(d, d + count)});
  poison(d, count);
}

bool Warpgroups::start(int first, const Warp& warp) {
  const auto group_at = static_cast<size_t>(first / kGroupThreads);
  if (group_at >= groups_.size()) emulator_.fail("wgmma: a warpgroup that has not 128 threads");
  std::array<ProductStart, kWarp> lanes;
  for (size_t lane = 0; lane < kWarp; ++lane)
    std::memcpy(&lanes[lane], warp.in[lane], sizeof lanes[lane]);
  Group& group = groups_[group_at];
  const size_t at = threads_[static_cast<size_t>(first)].started;
  if (at == group.products.size()) {
    group.products.push_back({lanes[0].product});
    count_reads(lanes[0].product, 1);
  }
  Product& product = group.products[at];
  for (size_t lane = 0; lane < kWarp; ++lane) {
    if (lanes[lane].product != product.what)
      emulator_.fail("wgmma: threads of a warpgroup start different products");
    const size_t number = static_cast<size_t>(first) + lane;
    Thread& thread = threads_[number];
    take(thread, lanes[lane].d, at, static_cast<size_t>(product.what.columns) / 2);
    product.d[number % kGroupThreads] = lanes[lane].d;
    ++thread.started;
  }
  return ++product.warps == kGroupThreads / kWarp;
}

void Warpgroups::fence(int thread) {
  threads_[static_cast<size_t>(thread)].fenced = true;
}

void Warpgroups::commit(int number) {
  Thread& thread = threads_[static_cast<size_t>(number)];
  thread.commits.push_back(thread.started);
}

bool Warpgroups::finish(int number, int but) {
  Thread& thread = threads_[static_cast<size_t>(number)];
  const auto latest = static_cast<size_t>(but);
  if (thread.commits.size() <= latest) return true;
  const size_t wanted = thread.commits[thread.commits.size() - 1 - latest];
  if (wanted == 0) return true;
  const auto at = static_cast<size_t>(number / kGroupThreads);
  Group& group = groups_[at];
  while (group.performed < wanted)
    if (!perform_next(at)) return false;
  for (; group.waited < wanted; ++group.waited) count_reads(group.products[group.waited].what, -1);
  std::erase_if(thread.sums, [&](const Sums& sums) {
    if (sums.last >= wanted) return false;
    if (!is_poisoned(sums.d, sums.values.size()))
      emulator_.fail("wgmma: sums were written while their product was under way");
    std::ranges::copy(sums.values, sums.d);
    thread.fenced = false;
    return true;
  });
  return true;
}

void Warpgroups::perform_some(uint64_t random) {
  for (size_t group = 0; group < groups_.size(); ++group)
    for (uint64_t left = random % 4; left > 0 && perform_next(group); --left) random /= 4;
}

bool Warpgroups::has_sums_under_way(int thread) const {
  return !threads_[static_cast<size_t>(thread)].sums.empty();
}

/// Products of a group are performed in their order.
bool Warpgroups::perform_next(size_t at) {
  Group& group = groups_[at];
  if (group.performed == group.products.size()) return false;
  const Product& product = group.products[group.performed];
  if (product.warps < kGroupThreads / kWarp) return false;
  const int columns = product.what.columns, depth = depth_of(product.what.a.element);
  const std::vector<float> a = read(product.what.a, kRows), b = read(product.what.b, columns);
  std::vector<float> sums(static_cast<size_t>(kRows * columns));
  for (int row = 0; row < kRows; ++row) {
    float* const own = sums.data() + row * columns;
    for (int k = 0; k < depth; ++k) {
      const float factor = a[static_cast<size_t>(k * kRows + row)];
      const float* const line = b.data() + k * columns;
      for (int column = 0; column < columns; ++column) own[column] += factor * line[column];
    }
  }
  for (int t = 0; t < kGroupThreads; ++t) {
    Sums& own = *find(threads_[at * kGroupThreads + static_cast<size_t>(t)],
                      product.d[static_cast<size_t>(t)]);
    for (int i = 0; i < columns / 2; ++i) {
      const int row = t / kWarp * 16 + t % kWarp / 4 + i / 2 % 2 * 8;
      const int column = i / 4 * 8 + t % 4 * 2 + i % 2;
      float& value = own.values[static_cast<size_t>(i)];
      value = (product.what.add ? value : 0) + sums[static_cast<size_t>(row * columns + column)];
    }
  }
  ++group.performed;
  return true;
}

/// Calls f(row, k, at) for the first element of each piece of an operand, at byte `at`.
template <class F>
void Warpgroups::for_pieces(const SharedOperand& operand, int rows, F&& f) const {
  const int run = static_cast<int>(kPiece / bytes_of(operand.element));
  const bool last = operand.contracted_last;
  for (int row = 0; row < rows; row += last ? 1 : run) {
    for (int k = 0; k < depth_of(operand.element); k += last ? run : 1) {
      const size_t at = element_at(operand, row, k);
      if (at + kPiece > bytes_) emulator_.fail("wgmma: an operand that is not in shared memory");
      f(row, k, at);
    }
  }
}

void Warpgroups::count_reads(const WarpgroupProduct& product, int by) {
  const auto count = [&](int, int, size_t at) { reads_[at / kPiece] += by; };
  for_pieces(product.a, kRows, count);
  for_pieces(product.b, product.columns, count);
}

/// [contracted, rows] of an operand.
std::vector<float> Warpgroups::read(const SharedOperand& operand, int rows) const {
  std::vector<float> values(static_cast<size_t>(depth_of(operand.element) * rows));
  const size_t bytes = bytes_of(operand.element);
  const bool last = operand.contracted_last;
  for_pieces(operand, rows, [&](int row, int k, size_t at) {
    if (writers_[at / kPiece] != 0)
      emulator_.fail("wgmma: an operand whose writer has no fence.proxy.async since");
    float* const to = values.data() + k * rows + row;
    for (size_t i = 0; i < kPiece / bytes; ++i)
      to[i * (last ? static_cast<size_t>(rows) : 1)] =
          value_of(memory_ + at + i * bytes, operand.element);
  });
  return values;
}

/// With the contracted dim last in memory an operand is rows of 128 bytes, eight of them together,
/// and such groups `stride` apart; otherwise 64 elements of the other dim are 128 bytes, for eight
/// steps of the contracted dim together, groups of these are `stride` apart, and the next 64
/// elements `leading`. Each 16 bytes are where bits 7 to 9 of the address change bits 4 to 6.
size_t Warpgroups::element_at(const SharedOperand& operand, int row, int k) const {
  const auto field = [&](int bit) { return (operand.descriptor >> bit & 0x3fff) << 4; };
  if (operand.descriptor >> 62 != 1 || (operand.descriptor >> 49 & 7) != 0)
    emulator_.fail("wgmma: a descriptor without the 128-byte swizzle of an aligned tile");
  const auto r = static_cast<size_t>(row), l = static_cast<size_t>(k);
  const size_t start = field(0), leading = field(16), stride = field(32);
  const size_t bytes = bytes_of(operand.element);
  if (!operand.contracted_last && bytes != 2)
    emulator_.fail("wgmma: operands of 8 bits have the contracted dim last");
  const size_t plain = operand.contracted_last
                           ? start + r / 8 * stride + r % 8 * 128 + l * bytes
                           : start + r / 64 * leading + r % 64 * 2 + l / 8 * stride + l % 8 * 128;
  return plain ^ (plain >> 3 & 0x70);
}

void Warpgroups::begin_write(int thread, const void* to, size_t size) {
  const auto at = static_cast<size_t>(static_cast<const char*>(to) - memory_);
  if (at >= bytes_ || at % kPiece + size > kPiece) return;
  if (reads_[at / kPiece] > 0) emulator_.fail("wgmma: an operand is written before the wait");
  writers_[at / kPiece] = thread + 1;
}

void Warpgroups::end_write(int thread, const void* to) {
  const auto at = static_cast<size_t>(static_cast<const char*>(to) - memory_);
  if (at < bytes_) threads_[static_cast<size_t>(thread)].written.push_back(at / kPiece);
}

void Warpgroups::fence_writes(int thread) {
  std::vector<size_t>& written = threads_[static_cast<size_t>(thread)].written;
  for (const size_t piece : written)
    if (writers_[piece] == thread + 1) writers_[piece] = 0;
  written.clear();
}

uint32_t Warpgroups::address_of(const void* memory) const {
  const auto at = static_cast<size_t>(static_cast<const char*>(memory) - memory_);
  if (at >= bytes_) emulator_.fail("wgmma: an operand that is not in dynamic shared memory");
  return static_cast<uint32_t>(at);
}

}  // namespace cuda_host
