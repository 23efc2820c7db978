#pragma once
// Products of warpgroups (wgmma) of the emulator: four warps multiply operands in shared memory,
// and go on before the products are done.
//
//   - Operands are found by their descriptors, as the hardware decodes them (PTX ISA, "Matrix
//     Descriptor Format"): start, offsets and the 128-byte swizzle, which is the only one here.
//   - A product reads its operands at a random moment between its start and the wait for it; until
//     the wait returns its sums are poisoned.
//   - Errors: sums given to a product without `wgmma.fence`, or written while it is under way;
//     operands that a thread wrote without `fence.proxy.async` after it, or that are written before
//     any thread has waited for the product; warps of a group that start different products;
//     threads that leave before they have waited.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_host {

class Emulator;
struct Warp;

inline constexpr int kGroupThreads = 128;

enum class Element : uint8_t { bf16, f16, e4m3, e5m2 };

/// An operand in shared memory: [64 or columns, 32 bytes of the contracted dim].
struct SharedOperand {
  uint64_t descriptor;
  Element element;
  bool contracted_last;  // in memory
  bool operator==(const SharedOperand&) const = default;
};

/// d [64, columns] = a · bᵀ, plus d where `add`.
struct WarpgroupProduct {
  SharedOperand a, b;
  int columns;
  bool add;
  bool operator==(const WarpgroupProduct&) const = default;
};

/// What a lane brings to the start of a product: d has columns / 2 of the sums.
struct ProductStart {
  float* d;
  WarpgroupProduct product;
};

class Warpgroups {
 public:
  explicit Warpgroups(const Emulator& emulator) : emulator_(emulator) {}
  void begin_block(int threads, const char* memory, size_t bytes);

  /// All lanes of the warp that begins with thread `first` start a product (`ProductStart`). True
  /// if it is complete: all warps of its group have started it.
  bool start(int first, const Warp& warp);
  void fence(int thread);
  void commit(int thread);
  /// Whether the products of all groups that the thread committed, except the latest `but`, have
  /// been started by all warps; if so they are done, and the thread has their sums.
  bool finish(int thread, int but);
  /// Performs what has been started, up to a random number of products of each warpgroup.
  void perform_some(uint64_t random);
  bool has_sums_under_way(int thread) const;

  /// A thread begins to write these bytes of shared memory; they are there; it has a fence after
  /// that. Bytes outside of dynamic shared memory are not followed.
  void begin_write(int thread, const void* to, size_t size);
  void end_write(int thread, const void* to);
  void fence_writes(int thread);
  /// An address in shared memory, as descriptors have it.
  uint32_t address_of(const void* memory) const;

 private:
  /// Sums of a thread in products under way: their values, which the thread does not see.
  struct Sums {
    float* d;
    size_t last;  // product
    std::vector<float> values;
  };
  struct Thread {
    std::vector<Sums> sums;
    std::vector<size_t> commits;  // products started until each
    size_t started = 0;
    bool fenced = false;
    std::vector<size_t> written;  // pieces
  };
  struct Product {
    WarpgroupProduct what;
    int warps = 0;
    std::array<float*, kGroupThreads> d{};
  };
  struct Group {
    std::vector<Product> products;
    size_t performed = 0, waited = 0;
  };

  Sums* find(Thread& thread, const float* d);
  void take(Thread& thread, float* d, size_t product, size_t count);
  bool perform_next(size_t group);
  void count_reads(const WarpgroupProduct& product, int by);
  std::vector<float> read(const SharedOperand& operand, int rows) const;
  template <class F>
  void for_pieces(const SharedOperand& operand, int rows, F&& f) const;
  size_t element_at(const SharedOperand& operand, int row, int k) const;

  const Emulator& emulator_;
  const char* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Thread> threads_;
  std::vector<Group> groups_;
  /// By piece of shared memory: the thread (+ 1) that wrote it without a fence since.
  std::vector<int> writers_;
  std::vector<int> reads_;  // by piece: of products that no thread has waited for
};

}  // namespace cuda_host
