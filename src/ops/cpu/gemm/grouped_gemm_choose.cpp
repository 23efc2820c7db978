// Choice and launch of grouped products on the cpu: those of experts run together on the machine's
// tiles, as many as the workspace has packed operands of. An expert's few rows, and quantized
// operands, which are made for one expert after the other (grouped_quantized.h), are products of
// the machine's gemm.

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/gemm_few_rows.h"
#include "ops/cpu/gemm/gemm_isa.h"
#include "ops/cpu/gemm/grouped_quantized.h"
#include "ops/grouped_gemm.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

// Up to this many rows, kernels for few rows may need memory of their own.
constexpr int64_t kSmallRows = 64;
// Columns into which a product is cut that needs more memory than available: borders of all groups
// of scales.
constexpr int64_t kColumnUnit = 128;
// Packed operands of products that run together: leaves room in the last-level cache.
constexpr int64_t kTogetherBytes = int64_t{8} << 20;

template <CpuIsa kIsa>
const OpEntry<GemmArgs>& gemm_entry() {
  static const OpEntry<GemmArgs> entry = [] {
    OpTable table;
    add_gemm(table, kIsa);
    return table.gemm;
  }();
  return entry;
}

/// Whether a product runs with others on tiles.
template <CpuIsa kIsa>
bool runs_together(const GemmArgs& product) {
  return !has_few_rows(product) || (kIsa == CpuIsa::amx && on_bf16_tiles<kIsa>(product));
}

/// The most that all products of `rows` rows need together, however these are shared out.
template <CpuIsa kIsa>
int64_t bytes_together(const GroupedGemmArgs& args, int64_t rows) {
  const int64_t experts = args.offsets.dim(0) - 1;
  if (args.form != GemmForm::weight_gradient)
    return experts * tile_workspace_bytes<kIsa>(product_of_expert(args, 0, 0, rows));
  // A multiple of the rows of a step of tiles for each expert.
  const int64_t all = rows + experts * kTileDepth;
  return tile_strips(args.b.dim(1)) * all * kTileColumns *
         (on_bf16_tiles<kIsa>(product_of_expert(args, 0, 0, rows)) ? 2 : 4);
}

template <CpuIsa kIsa>
Choice choose(const GroupedGemmArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("grouped_gemm", args.a.dtype(), traits, "gemm_by_expert");
  const bool gradient = args.form == GemmForm::weight_gradient;
  const Shape& weights = shape_of_weights(args);
  const int64_t rows = args.a.dim(0), experts = args.offsets.dim(0) - 1;
  const double products =
      static_cast<double>(rows) * static_cast<double>(weights[0] / experts * weights[1]);
  add_flops(choice, args.a.dtype(), 2.0 * products);
  choice.cost.bytes_read = args.a.bytes() + args.b.bytes() + args.offsets.bytes() +
                           (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  choice.cost.bytes_written = args.c.bytes();
  if (choice.variant == kReferenceKernel) return choice;
  const bool quantized = is_quantized_product(args);
  // Any expert may have any number of rows: all, or so few that other kernels run.
  const auto consider = [&](int64_t count) {
    const GemmArgs product =
        quantized ? placed_product(args, count, nullptr) : product_of_expert(args, 0, 0, count);
    const Choice one = gemm_entry<kIsa>().choose(product, traits);
    choice.workspace_bytes = std::max(choice.workspace_bytes, one.workspace_bytes);
    // BF16 products of matrix units count as such.
    if (count == rows && rows > 0) {
      for (size_t format = 0; format < choice.cost.flops.size(); ++format) {
        choice.cost.flops[format] = one.cost.flops[format];
      }
    }
  };
  for (int64_t count = 1; count < std::min(rows, kSmallRows); ++count) consider(count);
  consider(rows);
  if (!quantized) {
    choice.workspace_bytes = std::max(choice.workspace_bytes,
                                      std::min(bytes_together<kIsa>(args, rows), kTogetherBytes));
  } else {
    choice.kernel = "quantized_by_expert";
    // Each row is made, and each weight that is not there.
    const Operand weight = placed_product(args, 0, nullptr).b;
    const GemmArgs all = placed_product(args, rows, nullptr);
    int64_t made = all.a.bytes();
    if (args.b.form().plain()) made += gradient ? all.b.bytes() : experts * weight.bytes();
    choice.cost.bytes_read += made;
    choice.cost.bytes_written += made;
    choice.workspace_bytes += placed_bytes(args, rows);
  }
  return choice;
}

/// The columns [begin, begin + count) of what a product writes.
GemmArgs columns_of(const GemmArgs& product, int64_t begin, int64_t count) {
  GemmArgs part = product;
  const int dim = product.form == GemmForm::forward ? 0 : 1;
  part.b = product.b.slice(dim, begin, count);
  part.c = product.c.slice(1, begin, count);
  return part;
}

/// One expert's product, in as many pieces by columns as the workspace makes necessary. The order
/// of summation of an element depends only on the contracted size.
template <CpuIsa kIsa>
void run_product(OpContext& context, const GemmArgs& product, const Traits& traits, int64_t bytes,
                 void* workspace) {
  const OpEntry<GemmArgs>& entry = gemm_entry<kIsa>();
  const int64_t columns = product.c.dim(1);
  int64_t step = columns;
  while (step > kColumnUnit &&
         entry.choose(columns_of(product, 0, step), traits).workspace_bytes > bytes) {
    step = (step / 2 + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
  }
  for (int64_t begin = 0; begin < columns; begin += step) {
    const GemmArgs part = columns_of(product, begin, std::min(step, columns - begin));
    const Choice choice = entry.choose(part, traits);
    VIADUCT_CHECK(ShapeError, choice.workspace_bytes <= bytes,
                  "grouped_gemm: the product of {} and {} needs {} bytes of workspace, found {}",
                  describe(part.a), describe(part.b), choice.workspace_bytes, bytes);
    entry.launch(context, choice, part, workspace);
  }
}

/// Collects products for as long as their packed operands fit the workspace, and runs them.
template <CpuIsa kIsa>
class Together {
 public:
  Together(OpContext& context, void* workspace, int64_t bytes)
      : context_(context), workspace_(workspace), bytes_(bytes) {}

  void add(const GemmArgs& product) {
    const int64_t needed = tile_workspace_bytes<kIsa>(product);
    if (!runs_together<kIsa>(product) || needed > bytes_) {
      run();
      return run_product<kIsa>(context_, product, context_.ops.traits, bytes_, workspace_);
    }
    if (used_ + needed > bytes_) run();
    products_.push_back(product);
    used_ += needed;
  }
  void run() {
    if (!products_.empty()) run_on_tiles<kIsa>(context_.device.pool(), products_, workspace_);
    products_.clear();
    used_ = 0;
  }

 private:
  OpContext& context_;
  void* workspace_;
  int64_t bytes_, used_ = 0;
  std::vector<GemmArgs> products_;
};

template <CpuIsa kIsa>
void launch(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
            void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::grouped_gemm(args);
  const int32_t* offsets = args.offsets.data<int32_t>();
  const int64_t experts = args.offsets.dim(0) - 1;
  VIADUCT_CHECK(ShapeError, offsets[0] == 0 && offsets[experts] <= args.a.dim(0),
                "grouped_gemm: rows {} to {} belong to experts, expected 0 to at most {}",
                offsets[0], offsets[experts], args.a.dim(0));
  const bool gradient = args.form == GemmForm::weight_gradient;
  const auto each = [&](const auto& product) {
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t begin = offsets[e], end = offsets[e + 1];
      if (!gradient && begin == end) continue;
      product(e, begin, end);
    }
  };
  if (!is_quantized_product(args)) {
    Together<kIsa> together(context, workspace, choice.workspace_bytes);
    each([&](int64_t e, int64_t begin, int64_t end) {
      together.add(product_of_expert(args, e, begin, end));
    });
    return together.run();
  }
  const int64_t operands = placed_bytes(args, args.a.dim(0));
  auto* const memory = static_cast<std::byte*>(workspace);
  each([&](int64_t e, int64_t begin, int64_t end) {
    // Without rows there is nothing to quantize.
    const GemmArgs product =
        begin < end ? make_product(context.device.pool(), args, e, begin, end, memory, kIsa)
                    : product_of_expert(args, e, begin, end);
    run_product<kIsa>(context, product, context.ops.traits, choice.workspace_bytes - operands,
                      memory + operands);
  });
}

template <CpuIsa kIsa>
OpEntry<GroupedGemmArgs> entry() {
  return {choose<kIsa>, launch<kIsa>};
}

}  // namespace

void add_grouped_gemm(OpTable& table, CpuIsa isa) {
  switch (isa) {
    case CpuIsa::portable:
      table.grouped_gemm = entry<CpuIsa::portable>();
      break;
    case CpuIsa::avx2:
      table.grouped_gemm = entry<CpuIsa::avx2>();
      break;
    case CpuIsa::avx512:
      table.grouped_gemm = entry<CpuIsa::avx512>();
      break;
    case CpuIsa::avx512_bf16:
      table.grouped_gemm = entry<CpuIsa::avx512_bf16>();
      break;
    case CpuIsa::amx:
      table.grouped_gemm = entry<CpuIsa::amx>();
      break;
  }
}

}  // namespace viaduct::cpu
