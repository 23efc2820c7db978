#include "ops/expert_rows.h"

#include <vector>

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void sort_by_expert(const SortByExpertArgs& args) {
  const int64_t tokens = args.choice.dim(0), k = args.choice.dim(1), copies = args.copies;
  const int64_t destinations = args.counts.dim(0), own = args.experts_per_rank;
  int32_t row = 0;
  for (int64_t d = 0; d < destinations; ++d) {
    args.offsets.data<int32_t>()[d] = row;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t p = 0; p < k * copies; ++p) {
        const int64_t choice = args.choice.data<int32_t>()[t * k + p / copies];
        // Of the run that it is in, where runs of experts are one.
        const auto number = [&](int64_t of) {
          const int64_t beyond = of - args.first_expert, g = args.experts_together;
          return beyond < 0 ? -1 : beyond / g;
        };
        const int64_t expert = number(choice);
        bool again = false;
        for (int64_t j = 0; args.experts_together > 1 && j < p / copies; ++j) {
          const int64_t earlier = args.choice.data<int32_t>()[t * k + j];
          again = again || (earlier >= 0 && number(earlier) == expert);
        }
        if (choice < 0 || expert < 0 || expert >= destinations / copies || again) {
          args.position.data<int32_t>()[t * k * copies + p] = -1;
          continue;
        }
        const int64_t rank = expert / own * copies + p % copies;
        if (rank * own + expert % own != d) continue;
        args.token.data<int32_t>()[row] = static_cast<int32_t>(t);
        args.position.data<int32_t>()[t * k * copies + p] = row++;
      }
    }
    const int32_t begin = args.offsets.data<int32_t>()[d];
    while (row < begin + args.rows_each || (row - begin) % args.rows_multiple != 0)
      args.token.data<int32_t>()[row++] = 0;
    args.counts.data<int64_t>()[d] = row - args.offsets.data<int32_t>()[d];
  }
  args.offsets.data<int32_t>()[destinations] = row;
  if (args.all_rows) {
    int64_t& all = *args.all_rows.data<int64_t>();
    all = row + (args.all_rows_mode == WriteMode::assign ? 0 : all);
  }
  while (row < args.token.dim(0)) args.token.data<int32_t>()[row++] = 0;
}

void arrival_order(const ArrivalOrderArgs& args) {
  const int64_t senders = args.counts.dim(0), experts = args.counts.dim(1);
  const auto* counts = args.counts.data<int64_t>();
  int32_t row = 0;
  for (int64_t e = 0; e < experts; ++e) {
    args.offsets.data<int32_t>()[e] = row;
    int64_t received = 0;
    for (int64_t s = 0; s < senders; ++s) {
      for (int64_t other = 0; other < experts; ++other) {
        const int64_t count = counts[s * experts + other];
        for (int64_t i = 0; i < count; ++i, ++received) {
          if (other != e) continue;
          args.from.data<int32_t>()[row] = static_cast<int32_t>(received);
          args.back.data<int32_t>()[received] = row++;
        }
      }
    }
  }
  args.offsets.data<int32_t>()[experts] = row;
}

void combine_rows(const CombineRowsArgs& args) {
  const int64_t width = args.out.dim(1), places = args.position.dim(1);
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    for (int64_t h = 0; h < width; ++h) {
      double sum = 0;
      for (int64_t p = 0; p < places; ++p) {
        const int64_t row = args.position.data<int32_t>()[t * places + p];
        if (row < 0) continue;
        const double weight =
            args.weight ? args.weight.data<double>()[t * (places / args.copies) + p / args.copies]
                        : 1;
        sum += weight * args.rows.data<double>()[row * args.rows.stride(0) + h];
      }
      args.out.data<double>()[t * args.out.stride(0) + h] = sum;
    }
  }
}

void combine_rows_backward(const CombineRowsBackwardArgs& args) {
  const int64_t width = args.d_out.dim(1), places = args.position.dim(1);
  const int64_t k = places / args.copies;
  for (int64_t t = 0; t < args.d_out.dim(0); ++t) {
    const double* d_out = args.d_out.data<double>() + t * args.d_out.stride(0);
    for (int64_t j = 0; j < k; ++j) {
      const double weight = args.weight.data<double>()[t * k + j];
      double d_weight = 0;
      for (int64_t c = 0; c < args.copies; ++c) {
        const int64_t row = args.position.data<int32_t>()[t * places + j * args.copies + c];
        if (row < 0) continue;
        for (int64_t h = 0; h < width; ++h) {
          if (args.rows)
            d_weight += d_out[h] * args.rows.data<double>()[row * args.rows.stride(0) + h];
          args.d_rows.data<double>()[row * args.d_rows.stride(0) + h] = weight * d_out[h];
        }
      }
      if (args.d_weight) args.d_weight.data<double>()[t * k + j] = d_weight;
    }
  }
}

void row_dots(const RowDotsArgs& args) {
  const auto take = [&](int64_t r, int64_t of) {
    double sum = 0;
    for (int64_t i = 0; i < args.x.dim(1); ++i) sum += row(args.x, r)[i] * row(args.y, of)[i];
    double& out = args.out.data<double>()[r];
    out = sum + (args.mode == WriteMode::assign ? 0 : out);
  };
  if (!args.offsets) {
    for (int64_t r = 0; r < args.x.dim(0); ++r) take(r, r);
    return;
  }
  const auto* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e < args.y.dim(0); ++e)
    for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) take(r, e);
}

void combine_weights_backward(const CombineWeightsBackwardArgs& args) {
  const auto* position = args.position.data<int32_t>();
  for (int64_t i = 0; i < args.weight.elements(); ++i) {
    const double weight = args.weight.data<double>()[i];
    double sum = 0;
    for (int64_t c = 0; c < args.copies; ++c)
      if (const int32_t r = position[i * args.copies + c]; r >= 0)
        sum += args.dots.data<double>()[r];
    args.d_weight.data<double>()[i] = weight == 0 ? 0 : sum / weight;
  }
}

}  // namespace viaduct::reference
