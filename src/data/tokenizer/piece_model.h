#pragma once
// A vocabulary, and how a piece of normalized text becomes ids of it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/token_model.h"

namespace viaduct {

/// The bytes of a piece that an id stands for.
struct PiecePart {
  size_t begin = 0, end = 0;
  bool unknown = false;  // Unigram's unknown token, which is known by its text
};

/// Immutable after construction, shared by threads.
class PieceModel {
 public:
  /// Buffers; one per thread.
  class Buffers {
   public:
    virtual ~Buffers() = default;
  };

  PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;
  virtual ~PieceModel() = default;

  virtual std::string_view kind() const = 0;
  virtual bool is_bpe() const { return false; }
  virtual std::unique_ptr<Buffers> make_buffers() const = 0;
  /// Appends the ids of a piece, which is not empty, and returns its bytes without one.
  virtual UnknownBytes encode(std::string_view piece, Buffers& buffers,
                              std::vector<int32_t>& ids) const = 0;
  /// The same with a part for each id. The piece is text: of letters where `of_letters`. As in the
  /// library, what has no token and is left out moves the parts after it to the front.
  virtual UnknownBytes encode_parts(std::string_view piece, Buffers& buffers,
                                    std::vector<int32_t>& ids,
                                    std::vector<PiecePart>& parts) const = 0;
  /// Whether tokens are spelled in the byte alphabet.
  virtual bool of_letters() const { return false; }
  /// Appends the ids of bytes that are not text. False if the model encodes only text.
  virtual bool encode_bytes(std::string_view bytes, Buffers& buffers,
                            std::vector<int32_t>& ids) const = 0;
  /// The token that stands for what has none; none: it is left out.
  virtual std::optional<int32_t> unknown_token() const = 0;
  /// The bytes that the spelling of a token stands for.
  virtual std::string bytes_of(std::string_view spelling) const = 0;

  /// The largest id + 1.
  virtual int32_t size() const = 0;
  /// The number of tokens: ids may have gaps.
  virtual int32_t token_count() const = 0;
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  virtual std::optional<std::string> token(int32_t id) const = 0;
};

}  // namespace viaduct
