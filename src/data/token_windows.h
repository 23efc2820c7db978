#pragma once
// A stream of tokens cut into rows of one length that may overlap, so that every token but the
// first is scored once: perplexity of a text longer than the model's rows. With a stride below the
// length, tokens are scored after at least length − stride tokens of context, but for those of the
// first row.

#include "data/sample.h"
#include "data/token_stream.h"

namespace viaduct {

class TokenWindows final : public SampleSource {
 public:
  /// Row i begins at token i · stride and scores what no row before it did. The last row may reach
  /// beyond the text: there it is filled up with tokens that score nothing. ConfigError if the
  /// stream has fewer than two tokens, or the stride is not in [1, length].
  TokenWindows(TokenStream stream, int64_t length, int64_t stride);

  using SampleSource::get;
  int64_t size() const override;
  int64_t sequence_length() const override { return length_; }
  void get(int64_t index, Sample& sample) const override;

  /// Tokens that all rows together score.
  int64_t scored() const { return stream_.size() - 1; }

 private:
  TokenStream stream_;
  int64_t length_, stride_;
};

}  // namespace viaduct
