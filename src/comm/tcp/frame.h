#pragma once
// Messages between the hosts of ranks over TCP: a length, a kind, and its numbers and texts.

#include <cstdint>
#include <string>
#include <string_view>

namespace viaduct {

enum class FrameKind : uint8_t {
  hello,    // a rank to the hub: the protocol, its rank, the number of ranks, its host
  welcome,  // the hub: all ranks are here
  said,     // a rank's text of a call of a group
  texts,    // the hub to the group's first rank: all texts of a call
  merged,   // from there to the hub, and on to the others: what they come to
  missing,  // a rank asks who has not come to a call; the hub's answer
  failed,   // the cause, from one rank to all
  bye,      // the rank's program is over; the hub: all ranks' are
};

/// The longest frame that is taken: more is no frame of a rank.
inline constexpr uint32_t kMostFrameBytes = uint32_t{1} << 30;

/// Builds a frame.
class FrameWriter {
 public:
  explicit FrameWriter(FrameKind kind) { bytes_.push_back(static_cast<char>(kind)); }
  FrameWriter& number(int64_t value);
  FrameWriter& text(std::string_view value);
  /// The frame with its length in front. CommError if it is longer than one may be.
  std::string take() const;

 private:
  std::string bytes_;
};

/// Reads the values of a frame in their order. CommError where they end early.
class FrameReader {
 public:
  /// `bytes` without the length, at least one of them.
  explicit FrameReader(std::string_view bytes) : bytes_(bytes.substr(1)), kind_(bytes.front()) {}
  FrameKind kind() const { return static_cast<FrameKind>(kind_); }
  int64_t number();
  std::string text();

 private:
  std::string_view bytes_;
  char kind_;
};

/// Takes the first whole frame, without its length, off the front of `bytes`; false if there is
/// none yet. CommError if what begins there is longer than `most`.
bool take_frame(std::string& bytes, std::string& frame, uint32_t most = kMostFrameBytes);

}  // namespace viaduct
