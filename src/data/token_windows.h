#pragma once
// A stream of tokens cut into rows of one length that may overlap, so that every token but the
// first is scored once: perplexity of a text longer than the model's rows. With a stride below the
// length, tokens after the first row are scored with at least length − stride tokens of context.

#include "data/sample.h"
#include "data/token_stream.h"

namespace viaduct {

class TokenWindows final : public SampleSource {
 public:
  /// Row i begins at token i · stride and scores the tokens that no earlier row scored. The last
  /// row may extend beyond the text; it is padded with tokens that are not scored. ConfigError if
  /// the stream has fewer than two tokens, or the stride is not in [1, length].
  TokenWindows(TokenStream stream, int64_t length, int64_t stride);

  using SampleSource::get;
  int64_t size() const override;
  int64_t sequence_length() const override { return length_; }
  void get(int64_t index, Sample& sample) const override;

  /// Number of tokens scored by all rows together.
  int64_t scored() const { return stream_.size() - 1; }

 private:
  TokenStream stream_;
  int64_t length_, stride_;
};

}  // namespace viaduct
