// A file as second memory. Direct I/O keeps the host's page cache out of it, which would otherwise
// hold what was moved out of memory; it needs aligned memory, so pieces go through a buffer of
// pages.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "device/memory_slots.h"
#include "device/slot_backing.h"

namespace viaduct {
namespace {

constexpr int64_t kBufferBytes = int64_t{4} << 20;

/// A file in `folder` that has no name; −1 with errno.
int open_nameless(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  // A file system without such files.
  std::string name = (folder / ".viaduct_offload.XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

class FileBacking final : public SlotBacking {
 public:
  explicit FileBacking(const std::filesystem::path& folder) : folder_(folder) {
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(
        static_cast<size_t>(MemorySlots::kAlignment), static_cast<size_t>(kBufferBytes))));
    VIADUCT_CHECK(DeviceError, buffer_ != nullptr, "second memory: no memory for its buffer of {}",
                  format_bytes(kBufferBytes));
    std::memset(buffer_.get(), 0, static_cast<size_t>(kBufferBytes));
    descriptor_ = open_nameless(folder_);
    VIADUCT_CHECK(ConfigError, descriptor_ >= 0,
                  "memory.offload_path: {}: {}; expected a folder that this process may write to",
                  folder_.string(), std::strerror(errno));
    const int flags = ::fcntl(descriptor_, F_GETFL);
    direct_ = ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
    if (direct_ && !takes_direct_writes()) direct_ = ::fcntl(descriptor_, F_SETFL, flags) != 0;
  }
  ~FileBacking() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileBacking(const FileBacking&) = delete;
  FileBacking& operator=(const FileBacking&) = delete;

  void write(int64_t offset, const void* data, int64_t bytes) override {
    const auto* from = static_cast<const std::byte*>(data);
    for (int64_t done = 0; done < bytes;) {
      const int64_t piece = std::min(bytes - done, kBufferBytes);
      const std::byte* source = from + done;
      int64_t written = piece;
      if (direct_) {
        std::memcpy(buffer_.get(), source, static_cast<size_t>(piece));
        source = buffer_.get();
        written = MemorySlots::rounded(piece);
      }
      for (int64_t part = 0; part < written;) {
        const ssize_t n = ::pwrite(descriptor_, source + part, static_cast<size_t>(written - part),
                                   offset + done + part);
        if (n < 0 && errno == EINTR) continue;
        // Whole pages only: direct I/O cannot continue after a part of one.
        if (n <= 0 || (direct_ && n % MemorySlots::kAlignment != 0))
          refuse("written", offset, bytes, done + part + std::max<ssize_t>(n, 0), n < 0);
        part += n;
      }
      done += piece;
    }
  }

  void read(int64_t offset, void* data, int64_t bytes) override {
    auto* to = static_cast<std::byte*>(data);
    for (int64_t done = 0; done < bytes;) {
      const int64_t piece = std::min(bytes - done, kBufferBytes);
      std::byte* target = direct_ ? buffer_.get() : to + done;
      const int64_t wanted = direct_ ? MemorySlots::rounded(piece) : piece;
      for (int64_t part = 0; part < wanted;) {
        const ssize_t n = ::pread(descriptor_, target + part, static_cast<size_t>(wanted - part),
                                  offset + done + part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) refuse("read", offset, bytes, done + part, n < 0);
        part += n;
      }
      if (direct_) std::memcpy(to + done, buffer_.get(), static_cast<size_t>(piece));
      done += piece;
    }
  }

  void reserve(int64_t bytes) override {
    if (bytes == 0 || ::fallocate(descriptor_, 0, 0, bytes) == 0) return;
    const int reason = errno;
    // A file system that cannot reserve space fails at the write instead.
    if (reason == EOPNOTSUPP || reason == ENOSYS || reason == EINTR) return;
    fail<IoError>("second memory in {}: no room for its {}: {} (memory.offload_path)",
                  folder_.string(), format_bytes(bytes), std::strerror(reason));
  }

  std::string describe() const override {
    return fmt::format("file in {}, {}", folder_.string(),
                       direct_ ? "direct I/O" : "through the page cache");
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  /// Some file systems accept the flag but refuse its writes.
  bool takes_direct_writes() {
    const ssize_t n =
        ::pwrite(descriptor_, buffer_.get(), static_cast<size_t>(MemorySlots::kAlignment), 0);
    // A full disk has nothing to do with direct I/O; later writes report it.
    return n == MemorySlots::kAlignment || (n < 0 && errno != EINVAL && errno != EOPNOTSUPP);
  }

  [[noreturn]] void refuse(std::string_view what, int64_t offset, int64_t bytes, int64_t done,
                           bool has_reason) const {
    const int reason = errno;
    fail<IoError>("second memory in {}: {} of {} bytes at {} were {}: {} (memory.offload_path)",
                  folder_.string(), done, bytes, offset, what,
                  has_reason ? std::strerror(reason) : "the file system accepted no more");
  }

  std::filesystem::path folder_;
  std::unique_ptr<std::byte, Free> buffer_;
  int descriptor_ = -1;
  bool direct_ = false;
};

}  // namespace

std::unique_ptr<SlotBacking> make_file_backing(const std::filesystem::path& folder) {
  return std::make_unique<FileBacking>(folder);
}

}  // namespace viaduct
