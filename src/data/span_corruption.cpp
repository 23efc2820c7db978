#include "data/span_corruption.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/row_draws.h"

namespace viaduct {
namespace {

/// Halves go to the even number.
int64_t rounded(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

/// Lengths of `segments` runs of one or more, together `items`: all of them equally likely. Which
/// items begin a run is drawn item by item (Knuth, The Art of Computer Programming, algorithm
/// 3.4.2S).
std::vector<int64_t> random_segmentation(int64_t items, int64_t segments, RowDraws& draws) {
  std::vector<int64_t> lengths{1};
  int64_t begin = segments - 1;  // runs that are to begin among the items left
  for (int64_t left = items - 1; left > 0; --left) {
    if (static_cast<int64_t>(draws.up_to(static_cast<size_t>(left - 1))) < begin) {
      lengths.push_back(0);
      --begin;
    }
    ++lengths.back();
  }
  return lengths;
}

/// `tokens` with a sentinel for each run of those whose mark is `replaced`.
std::vector<int32_t> with_sentinels(std::span<const int32_t> tokens, std::span<const uint8_t> marks,
                                    uint8_t replaced, int32_t first_sentinel) {
  std::vector<int32_t> made;
  int32_t sentinel = first_sentinel;
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (marks[t] != replaced) {
      made.push_back(tokens[t]);
    } else if (t == 0 || marks[t - 1] != replaced) {
      made.push_back(sentinel--);
    }
  }
  return made;
}

}  // namespace

SpanCounts span_counts(int64_t tokens, const SpanNoise& noise) {
  VIADUCT_CHECK(ShapeError, tokens >= 2, "span corruption: a text of {}, expected 2 tokens or more",
                tokens);
  SpanCounts counts;
  counts.noise =
      std::clamp<int64_t>(rounded(static_cast<double>(tokens) * noise.density), 1, tokens - 1);
  counts.spans = std::clamp<int64_t>(rounded(static_cast<double>(counts.noise) / noise.mean_length),
                                     1, std::min(counts.noise, tokens - counts.noise));
  return counts;
}

SpanLengths span_lengths(int64_t input, int64_t ends, const SpanNoise& noise) {
  const auto of = [&](int64_t tokens) {
    const SpanCounts counts = span_counts(tokens, noise);
    return SpanLengths{.tokens = tokens,
                       .input = tokens - counts.noise + counts.spans + ends,
                       .target = counts.noise + counts.spans + ends,
                       .spans = counts.spans};
  };
  SpanLengths lengths = of(2);
  VIADUCT_CHECK(ShapeError, lengths.input <= input,
                "span corruption: rows of {} for the encoder, expected {} tokens or more", input,
                lengths.input);
  for (SpanLengths next = of(3); next.input <= input; next = of(next.tokens + 1)) lengths = next;
  if (noise.density == 0.5 && lengths.target > lengths.input && lengths.tokens > 2)
    lengths = of(lengths.tokens - 1);
  return lengths;
}

std::vector<uint8_t> random_spans_noise_mask(int64_t tokens, const SpanNoise& noise,
                                             RowDraws& draws) {
  const SpanCounts counts = span_counts(tokens, noise);
  const std::vector<int64_t> of_noise = random_segmentation(counts.noise, counts.spans, draws);
  const std::vector<int64_t> others =
      random_segmentation(tokens - counts.noise, counts.spans, draws);
  std::vector<uint8_t> mask;
  for (size_t span = 0; span < of_noise.size(); ++span) {
    mask.insert(mask.end(), static_cast<size_t>(others[span]), uint8_t{0});
    mask.insert(mask.end(), static_cast<size_t>(of_noise[span]), uint8_t{1});
  }
  return mask;
}

CorruptedText corrupt_spans(std::span<const int32_t> tokens, std::span<const uint8_t> noise,
                            int32_t first_sentinel) {
  return {with_sentinels(tokens, noise, 1, first_sentinel),
          with_sentinels(tokens, noise, 0, first_sentinel)};
}

}  // namespace viaduct
