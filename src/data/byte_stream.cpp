#include "data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/given_path.h"

namespace viaduct {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 16;
constexpr std::string_view kGzipMagic = "\x1f\x8b", kZstdMagic = "\x28\xb5\x2f\xfd";
// A skippable zstd frame begins with 50 to 5f, 2a 4d 18.
constexpr std::string_view kZstdSkippedEnd = "\x2a\x4d\x18";

enum class Compression { none, gzip, zstd };

Compression compression_of(std::string_view first) {
  if (first.starts_with(kGzipMagic)) return Compression::gzip;
  if (first.starts_with(kZstdMagic)) return Compression::zstd;
  if (first.size() >= 4 && (static_cast<uint8_t>(first[0]) & 0xF0) == 0x50 &&
      first.substr(1, 3) == kZstdSkippedEnd)
    return Compression::zstd;
  return Compression::none;
}

bool has_suffix(const std::filesystem::path& path, std::string_view suffix) {
  return path.extension() == suffix;
}

/// A file descriptor read in order; its first block can be inspected before it is consumed.
class Source {
 public:
  explicit Source(const std::filesystem::path& path) : name_(input_name(path)) {
    if (path == "-") {
      file_ = STDIN_FILENO;
      return;
    }
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    VIADUCT_CHECK(IoError, file_ >= 0, "cannot open {}: {}", name_, std::strerror(errno));
    owned_ = true;
  }
  ~Source() {
    if (owned_) ::close(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& name() const { return name_; }
  int64_t offset() const { return offset_; }

  /// The next bytes; fewer than requested only at the end.
  size_t read(std::span<char> to) {
    size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = ::read(file_, to.data() + got, to.size() - got);
      if (n < 0 && errno == EINTR) continue;
      VIADUCT_CHECK(IoError, n >= 0, "cannot read {} at offset {}: {}", name_,
                    offset_ + static_cast<int64_t>(got), std::strerror(errno));
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    offset_ += static_cast<int64_t>(got);
    return got;
  }

 private:
  std::string name_;
  int file_ = -1;
  bool owned_ = false;
  int64_t offset_ = 0;
};

/// Blocks of the source; the first may already have been read.
class Blocks {
 public:
  explicit Blocks(std::unique_ptr<Source> source)
      : source_(std::move(source)), block_(kBlockBytes) {
    refill();
  }
  const std::string& name() const { return source_->name(); }
  std::string_view rest() const { return {block_.data() + at_, end_ - at_}; }
  void use(size_t bytes) { at_ += bytes; }
  /// Offset in the file of the first byte that was not used.
  int64_t offset() const { return source_->offset() - static_cast<int64_t>(end_ - at_); }
  /// Reads another block if the last one is used up; false at the end.
  bool more() {
    if (at_ < end_) return true;
    refill();
    return end_ > 0;
  }

 private:
  void refill() {
    at_ = 0;
    end_ = source_->read(block_);
  }

  std::unique_ptr<Source> source_;
  std::vector<char> block_;
  size_t at_ = 0, end_ = 0;
};

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(Blocks blocks) : blocks_(std::move(blocks)) {}
  size_t read(std::span<char> to) override {
    size_t got = 0;
    while (got < to.size() && blocks_.more()) {
      const std::string_view rest = blocks_.rest().substr(0, to.size() - got);
      std::memcpy(to.data() + got, rest.data(), rest.size());
      blocks_.use(rest.size());
      got += rest.size();
    }
    return got;
  }
  int64_t consumed() const override { return blocks_.offset(); }

 private:
  Blocks blocks_;
};

[[noreturn]] void fail_damaged(const Blocks& blocks, const char* kind, std::string_view why) {
  fail<IoError>("{}: damaged {} data at about offset {}: {}", blocks.name(), kind, blocks.offset(),
                why);
}

[[noreturn]] void fail_truncated(const Blocks& blocks, const char* kind) {
  fail<IoError>("{}: the {} data end early, at offset {}: the file is truncated", blocks.name(),
                kind, blocks.offset());
}

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(Blocks blocks) : blocks_(std::move(blocks)) {
    constexpr int kGzip = 16 + MAX_WBITS;
    VIADUCT_CHECK(IoError, ::inflateInit2(&state_, kGzip) == Z_OK,
                  "{}: not enough memory to unpack it", blocks_.name());
  }
  ~GzipStream() override { ::inflateEnd(&state_); }

  size_t read(std::span<char> to) override {
    size_t got = 0;
    while (got < to.size() && next_member()) {
      if (!blocks_.more()) fail_truncated(blocks_, "gzip");
      const std::string_view in = blocks_.rest();
      const size_t room = std::min(to.size() - got, size_t{1} << 30);
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
      state_.avail_in = static_cast<uInt>(in.size());
      state_.next_out = reinterpret_cast<Bytef*>(to.data() + got);
      state_.avail_out = static_cast<uInt>(room);
      const int status = ::inflate(&state_, Z_NO_FLUSH);
      blocks_.use(in.size() - state_.avail_in);
      got += room - state_.avail_out;
      if (status == Z_STREAM_END) {
        inside_ = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail_damaged(blocks_, "gzip", state_.msg != nullptr ? state_.msg : "it cannot be unpacked");
      }
    }
    return got;
  }
  int64_t consumed() const override { return blocks_.offset(); }

 private:
  /// A file may hold several members in sequence. False after the last.
  bool next_member() {
    if (inside_) return true;
    if (!blocks_.more()) return false;
    // The two bytes may lie in two blocks; inflate itself checks the second.
    if (!blocks_.rest().starts_with(kGzipMagic.front()))
      fail_damaged(blocks_, "gzip", "what follows the end of a member is not gzip");
    ::inflateReset(&state_);
    inside_ = true;
    return true;
  }

  Blocks blocks_;
  z_stream state_{};
  bool inside_ = true;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(Blocks blocks) : blocks_(std::move(blocks)), state_(::ZSTD_createDStream()) {
    VIADUCT_CHECK(IoError, state_ != nullptr, "{}: not enough memory to unpack it", blocks_.name());
  }
  ~ZstdStream() override { ::ZSTD_freeDStream(state_); }

  size_t read(std::span<char> to) override {
    size_t got = 0;
    while (got < to.size()) {
      // The decoder can emit buffered output without new input, so the end of input alone is no
      // error.
      const bool ended = !blocks_.more();
      const std::string_view rest = ended ? std::string_view() : blocks_.rest();
      ZSTD_inBuffer in{rest.data(), rest.size(), 0};
      ZSTD_outBuffer out{to.data() + got, to.size() - got, 0};
      if (ended && !inside_) break;
      const size_t status = ::ZSTD_decompressStream(state_, &out, &in);
      blocks_.use(in.pos);
      if (::ZSTD_isError(status)) fail_damaged(blocks_, "zstd", ::ZSTD_getErrorName(status));
      got += out.pos;
      inside_ = status != 0;
      if (ended && inside_ && out.pos == 0) fail_truncated(blocks_, "zstd");
    }
    return got;
  }
  int64_t consumed() const override { return blocks_.offset(); }

 private:
  Blocks blocks_;
  ZSTD_DStream* state_;
  bool inside_ = false;  // of a frame
};

}  // namespace

std::string input_name(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  return has_suffix(path, ".gz") || has_suffix(path, ".zst") ? path.parent_path() / path.stem()
                                                             : path;
}

InputKind input_kind(const std::filesystem::path& path) {
  InputKind kind;
  if (path == "-") return {true, true, 0};
  check_given_path("", path, "a text file or JSONL");
  struct stat info {};
  VIADUCT_CHECK(IoError, ::stat(path.c_str(), &info) == 0, "cannot open {}: {}", path.string(),
                std::strerror(errno));
  VIADUCT_CHECK(ConfigError, !S_ISDIR(info.st_mode),
                "cannot read {}: expected text or JSONL files, one by one{}", path.string(),
                folder_text(path));
  if (!S_ISREG(info.st_mode)) return {false, true, 0};  // a pipe: its first bytes can be read once
  kind.stored_bytes = static_cast<int64_t>(info.st_size);
  std::string first(4, '\0');
  Source source(path);
  first.resize(source.read(first));
  const Compression compression = compression_of(first);
  kind.stream = compression != Compression::none;
  VIADUCT_CHECK(IoError, kind.stream || without_compression(path) == path,
                "{}: its name says {}, but its first bytes are not those of a compressed file",
                path.string(), has_suffix(path, ".gz") ? "gzip" : "zstd");
  return kind;
}

int64_t stored_bytes_of(const std::vector<std::filesystem::path>& inputs) {
  int64_t total = 0;
  for (const auto& path : inputs) {
    const InputKind kind = input_kind(path);
    if (kind.stored_bytes == 0 && kind.stream) return 0;
    total += kind.stored_bytes;
  }
  return total;
}

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
  Blocks blocks(std::make_unique<Source>(path));
  switch (compression_of(blocks.rest())) {
    case Compression::gzip:
      return std::make_unique<GzipStream>(std::move(blocks));
    case Compression::zstd:
      return std::make_unique<ZstdStream>(std::move(blocks));
    case Compression::none:
      break;
  }
  return std::make_unique<PlainStream>(std::move(blocks));
}

}  // namespace viaduct
