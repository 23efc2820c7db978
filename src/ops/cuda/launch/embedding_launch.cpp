// Launches of embedding look-ups and of their gradients.

#include <bit>

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/embedding.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

void launch_forward(OpContext& context, const Choice&, const EmbeddingForwardArgs& args, void*) {
  constexpr std::string_view op = "embedding_forward";
  if (dtype_bytes(args.weight.dtype()) == 1) {
    return copy_code_rows(
        {args.ids.data<int32_t>(), static_cast<const uint8_t*>(args.weight.raw()),
         static_cast<uint8_t*>(args.out.raw()), args.weight.stride(0), args.out.stride(0),
         args.ids.dim(0), args.weight.dim(0), args.weight.dim(1), args.first_row},
        stream_of(context));
  }
  embedding_forward({args.ids.data<int32_t>(), rows_of(op, args.weight), rows_of(op, args.out),
                     args.ids.dim(0), args.weight.dim(0), args.weight.dim(1), args.first_row,
                     static_cast<float>(args.scale), args.mode == WriteMode::accumulate},
                    stream_of(context));
}

/// The workspace is the one that the choice requests: two buffers of tokens, then the counts of
/// digits.
void launch_backward(OpContext& context, const Choice&, const EmbeddingBackwardArgs& args,
                     void* workspace) {
  constexpr std::string_view op = "embedding_backward";
  const Stream stream = stream_of(context);
  const int64_t tokens = args.ids.dim(0), rows = args.d_weight.dim(0), width = args.d_weight.dim(1);
  if (args.mode == WriteMode::assign) {
    ElementwiseRows zero{Elementwise::fill, {}, {}, one_row(op, args.d_weight), 1, rows * width};
    elementwise(zero, stream);
  }
  if (tokens == 0) return;
  auto* const buffers = static_cast<TokenOfRow*>(workspace);
  const int passes = (std::bit_width(static_cast<uint64_t>(rows)) + kDigitBits - 1) / kDigitBits;
  const TokenSort sort{args.ids.data<int32_t>(),
                       tokens,
                       rows,
                       args.first_row,
                       args.padding_id,
                       {buffers, buffers + tokens},
                       reinterpret_cast<int32_t*>(buffers + 2 * tokens),
                       passes};
  embedding_backward(
      {sort_tokens(sort, stream), rows_of(op, args.d_out), args.d_weight.data<float>(), tokens,
       rows, width, static_cast<float>(args.scale)},
      stream);
}

}  // namespace

void add_embedding_launches(OpTable& table) {
  table.embedding_forward.launch = launch_forward;
  table.embedding_backward.launch = launch_backward;
}

}  // namespace viaduct::cuda
