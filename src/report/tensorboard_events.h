#pragma once
// The bytes of TensorBoard event files: TFRecord frames around serialized `Event` messages. Only
// what scalars and texts need; the messages have a handful of fields whose numbers can never
// change, so they are encoded here instead of by a code generator at build time.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace viaduct::tensorboard {

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected), as iSCSI and TFRecord use it.
uint32_t crc32c(std::string_view bytes);

/// A TFRecord: u64 length, masked CRC of the length, data, masked CRC of the data; little-endian.
/// The mask is rotate_right(crc, 15) + 0xa282ead8.
std::string record(std::string_view data);

/// A named number of one step.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// A named text of one step, which readers show as Markdown.
struct Text {
  std::string tag, text;
};

/// `Event` with file_version "brain.Event:2", the first record of each file.
std::string version_event(double wall_seconds);
/// `Event` with a session start at `step`: readers drop what earlier files contain for this step
/// and later ones.
std::string restart_event(double wall_seconds, int64_t step);
/// `Event` with a summary of scalars (stored as float).
std::string scalars_event(double wall_seconds, int64_t step, std::span<const Scalar> scalars);
/// `Event` with a summary of texts, as the text plugin reads them: tensors of one string.
std::string texts_event(double wall_seconds, int64_t step, std::span<const Text> texts);

}  // namespace viaduct::tensorboard
