#include "data/indexed_dataset.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"

namespace viaduct {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read in place");

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr uint64_t kHeaderBytes = 34;

template <class Out>
void widen(TokenType type, const std::byte* from, std::span<Out> out) {
  with_token_type(type, [&](auto stored) {
    for (size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
      out[i] = static_cast<Out>(stored);
    }
  });
}

// True where any token is outside of [0, INT32_MAX]; unsigned types, of up to 16 bits, never are.
bool any_outside_int32(TokenType type, const std::byte* from, size_t count) {
  return with_token_type(type, [&](auto stored) {
    using Stored = decltype(stored);
    bool outside = false;
    if constexpr (std::is_integral_v<Stored> && std::is_signed_v<Stored>) {
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
        outside |= stored < 0 || static_cast<int64_t>(stored) > std::numeric_limits<int32_t>::max();
      }
    }
    return outside;
  });
}

}  // namespace

struct IndexedDataset::Files {
  MappedFile idx, bin;
};

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix, IndexCheck check)
    : prefix_(prefix.string()) {
  const auto files = std::make_shared<const Files>(
      Files{MappedFile(prefix_ + ".idx"), MappedFile(prefix_ + ".bin")});
  idx_ = {files->idx.data(), files->idx.size()};
  bin_ = {files->bin.data(), files->bin.size()};
  owner_ = files;
  files_ = files.get();
  try {
    parse(check);
  } catch (const IoError&) {
    check_known_faults();  // a read error, not a wrong index
    throw;
  }
  check_known_faults();
}

void IndexedDataset::check_read() const {
  if (files_ == nullptr) return;
  files_->idx.check();
  files_->bin.check();
}

void IndexedDataset::check_known_faults() const {
  if (files_ != nullptr && (files_->idx.failed() || files_->bin.failed())) check_read();
}

IndexedDataset IndexedDataset::from_memory(std::string idx, std::string bin, std::string name) {
  const auto texts = std::make_shared<const std::array<std::string, 2>>(
      std::array{std::move(idx), std::move(bin)});
  IndexedDataset dataset;
  dataset.prefix_ = std::move(name);
  dataset.idx_ = std::as_bytes(std::span((*texts)[0]));
  dataset.bin_ = std::as_bytes(std::span((*texts)[1]));
  dataset.owner_ = texts;
  dataset.parse(IndexCheck::at_once);
  return dataset;
}

void IndexedDataset::parse(IndexCheck check) {
  parse_header();
  if (check == IndexCheck::on_use) return;
  validate_sequences();
  validate_documents();
}

void IndexedDataset::parse_header() {
  const uint64_t size = idx_.size();
  VIADUCT_CHECK(IoError, size >= kHeaderBytes, "{}.idx: {}, shorter than the header of {} bytes",
                prefix_, size == 0 ? std::string("an empty file") : fmt::format("{} bytes", size),
                kHeaderBytes);
  const std::byte* data = idx_.data();
  VIADUCT_CHECK(IoError, std::memcmp(data, kMagic, sizeof kMagic) == 0,
                "{}.idx is not an indexed dataset: it does not begin with MMIDIDX", prefix_);
  const uint64_t version = load<uint64_t>(data + 9, 0);
  VIADUCT_CHECK(IoError, version == 1, "{}.idx: version {}, expected 1", prefix_, version);
  const uint8_t code = load<uint8_t>(data + 17, 0);
  VIADUCT_CHECK(IoError, is_token_type(code), "{}.idx: dtype code {}, expected 1 to 8", prefix_,
                code);
  type_ = static_cast<TokenType>(code);

  const uint64_t sequences = load<uint64_t>(data + 18, 0), entries = load<uint64_t>(data + 26, 0);
  const uint64_t rest = size - kHeaderBytes;
  // Bound each count before multiplying: 2^62 sequences must not wrap to something plausible.
  VIADUCT_CHECK(
      IoError,
      sequences <= rest / 12 && entries <= rest / 8 && sequences * 12 + entries * 8 <= rest,
      "{}.idx: {} sequences and {} document-index entries do not fit into its {} bytes", prefix_,
      sequences, entries, size);
  VIADUCT_CHECK(IoError, entries >= 1,
                "{}.idx: the document index is empty, expected at least its leading 0", prefix_);
  const uint64_t tail = rest - sequences * 12 - entries * 8;
  VIADUCT_CHECK(IoError, tail == 0 || tail == sequences,
                "{}.idx: {} bytes after the document index, expected none or one mode for each of "
                "{} sequences",
                prefix_, tail, sequences);
  sequence_count_ = static_cast<int64_t>(sequences);
  document_entries_ = static_cast<int64_t>(entries);
  lengths_ = data + kHeaderBytes;
  offsets_ = lengths_ + sequences * 4;
  documents_ = offsets_ + sequences * 8;
  if (tail != 0) modes_ = documents_ + entries * 8;
}

int64_t IndexedDataset::total_tokens() const {
  if (total_tokens_ >= 0) return total_tokens_;
  int64_t total = 0;
  for (int64_t i = 0; i < sequence_count_; ++i) total += sequence_length(i);
  return total;
}

void IndexedDataset::validate_sequences() {
  const int64_t item = token_type_bytes(type_), bin_bytes = static_cast<int64_t>(bin_.size());
  total_tokens_ = 0;
  for (int64_t i = 0; i < sequence_count_; ++i) {
    const int64_t length = sequence_length(i), offset = sequence_offset(i);
    VIADUCT_CHECK(IoError, length >= 0, "{}.idx: sequence {} has the negative length {}", prefix_,
                  i, length);
    VIADUCT_CHECK(
        IoError, offset >= 0 && offset <= bin_bytes && length * item <= bin_bytes - offset,
        "{}.idx: sequence {} ({} of {} at byte {}) lies outside of {}.bin ({} bytes)", prefix_, i,
        counted(length, "token"), counted(item, "byte"), offset, prefix_, bin_bytes);
    VIADUCT_CHECK(IoError, !__builtin_add_overflow(total_tokens_, length, &total_tokens_),
                  "{}.idx: the sequence lengths up to {} overflow", prefix_, i);
  }
}

void IndexedDataset::validate_documents() {
  VIADUCT_CHECK(IoError, document_start(0) == 0,
                "{}.idx: the document index begins with {}, expected 0", prefix_,
                document_start(0));
  for (int64_t i = 1; i < document_entries_; ++i) {
    VIADUCT_CHECK(
        IoError, document_start(i) >= document_start(i - 1) && document_start(i) <= sequence_count_,
        "{}.idx: entry {} of the document index is {}, expected {} to {}", prefix_, i,
        document_start(i), document_start(i - 1), sequence_count_);
  }
  VIADUCT_CHECK(IoError, document_start(document_entries_ - 1) == sequence_count_,
                "{}.idx: the document index ends with {}, expected the number of sequences {}",
                prefix_, document_start(document_entries_ - 1), sequence_count_);
}

const std::byte* IndexedDataset::range(int64_t sequence, int64_t offset, int64_t count) const {
  VIADUCT_CHECK(ShapeError, sequence >= 0 && sequence < sequence_count_, "{}: sequence {} of {}",
                prefix_, sequence, sequence_count_);
  const int64_t length = sequence_length(sequence);
  if (offset < 0 || offset > length || count > length - offset) check_known_faults();
  VIADUCT_CHECK(ShapeError, offset >= 0 && offset <= length && count <= length - offset,
                "{}: tokens [{}, {}) of sequence {}, which has {}", prefix_, offset, offset + count,
                sequence, length);
  const int64_t begin = sequence_offset(sequence), item = token_type_bytes(type_),
                bytes = static_cast<int64_t>(bin_.size());
  if (begin < 0 || begin > bytes || length * item > bytes - begin) check_known_faults();
  VIADUCT_CHECK(IoError, begin >= 0 && begin <= bytes && length * item <= bytes - begin,
                "{}.idx: sequence {} ({} of {} at byte {}) lies outside of {}.bin ({} "
                "bytes)",
                prefix_, sequence, counted(length, "token"), counted(item, "byte"), begin, prefix_,
                bytes);
  return bin_.data() + begin + offset * item;
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int64_t> out) const {
  VIADUCT_CHECK(IoError, !is_float_token(type_), "{}: holds {} values, not tokens", prefix_,
                token_type_name(type_));
  widen(type_, range(sequence, offset, static_cast<int64_t>(out.size())), out);
  check_known_faults();
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int32_t> out) const {
  VIADUCT_CHECK(IoError, !is_float_token(type_), "{}: holds {} values, not tokens", prefix_,
                token_type_name(type_));
  const std::byte* from = range(sequence, offset, static_cast<int64_t>(out.size()));
  VIADUCT_CHECK(IoError, !any_outside_int32(type_, from, out.size()),
                "{}: sequence {} holds a token outside of 0 to {} among its tokens [{}, {})",
                prefix_, sequence, std::numeric_limits<int32_t>::max(), offset,
                offset + static_cast<int64_t>(out.size()));
  widen(type_, from, out);
  check_known_faults();
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<double> out) const {
  const std::byte* from = range(sequence, offset, static_cast<int64_t>(out.size()));
  widen(type_, from, out);
  check_known_faults();
}

std::span<const std::byte> IndexedDataset::bytes(int64_t sequence) const {
  const int64_t length =
      sequence >= 0 && sequence < sequence_count_ ? sequence_length(sequence) : 0;
  return {range(sequence, 0, length), static_cast<size_t>(length * token_type_bytes(type_))};
}

}  // namespace viaduct
