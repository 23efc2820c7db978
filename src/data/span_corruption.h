#pragma once
// Span corruption (Raffel et al. 2020, arXiv 1910.10683, section 3.1.4 and figure 2): spans of a
// text are noise, which is left out of the input, and which the target says. As in the code of the
// paper (`random_spans_noise_mask`, `noise_span_to_unique_sentinel`).

#include <cstdint>
#include <span>
#include <vector>

namespace viaduct {

class RowDraws;

struct SpanNoise {
  double density = 0.15;   // share of tokens that are noise, in (0, 1)
  double mean_length = 3;  // of a span of noise
};

/// Of a text of `tokens` ≥ 2: round(tokens · density) tokens of noise in round(noise / mean_length)
/// spans, halves to the even number. There is at least one token of each kind, and a span has at
/// least one token with at least one other before it.
struct SpanCounts {
  int64_t noise = 0, spans = 0;
};
SpanCounts span_counts(int64_t tokens, const SpanNoise& noise);

/// The longest text whose input has at most `input` tokens, and what becomes of it: input and
/// target have a sentinel for each span and `ends` tokens at their end.
struct SpanLengths {
  int64_t tokens = 0, input = 0, target = 0, spans = 0;
};
/// ShapeError if there is no room for a text of 2 tokens. With a density of 0.5 a target that would
/// be longer than its input makes the text a token shorter, as in the code of the paper.
SpanLengths span_lengths(int64_t input, int64_t ends, const SpanNoise& noise);

/// 1 where a token is noise. Runs of other tokens and of noise take turns, the first is of others,
/// the last of noise; all masks of these counts are equally likely.
std::vector<uint8_t> random_spans_noise_mask(int64_t tokens, const SpanNoise& noise,
                                             RowDraws& draws);

struct CorruptedText {
  std::vector<int32_t> input, target;
};
/// The input has a sentinel for each run of noise, the target one for each run of other tokens:
/// run k of either has the sentinel `first_sentinel` − k. So a text that ends with other tokens
/// closes its target with a sentinel, as in the paper's figure; those of random_spans_noise_mask
/// end with noise.
CorruptedText corrupt_spans(std::span<const int32_t> tokens, std::span<const uint8_t> noise,
                            int32_t first_sentinel);

}  // namespace viaduct
