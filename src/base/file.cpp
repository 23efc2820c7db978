#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

[[noreturn]] void fail_io(const char* operation, const std::filesystem::path& path) {
  fail<IoError>("cannot {} {}: {}", operation, path.string(), std::strerror(errno));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // A pipe would be waited for: it is refused below.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_io("open", path);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) fail_io("inspect", path);
  VIADUCT_CHECK(IoError, S_ISREG(info.st_mode), "cannot read {}: it is {}, expected a file",
                path.string(), S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) fail_io("map", path);
  data_ = static_cast<const std::byte*>(address);
  path_ = path;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  slot_ = MappingSlot(address, size_, path.string());
}

MappedFile::~MappedFile() {
  slot_ = MappingSlot();  // before another mapping can get the same addresses
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      device_(other.device_),
      inode_(other.inode_),
      slot_(std::move(other.slot_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(slot_, other.slot_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::check() const {
  if (data_ == nullptr) return;
  struct stat now {};
  // Another file may have this path by now; the mapped file is then unchanged.
  const bool same =
      ::stat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  const auto size = static_cast<size_t>(same ? now.st_size : 0);
  const bool shorter = same && size < size_;
  VIADUCT_CHECK(IoError, !shorter,
                "{}: cut short while in use: {} bytes when it was opened, {} now{}", path_.string(),
                size_, size,
                failed() ? fmt::format("; byte {} could not be read", slot_.fault()) : "");
  VIADUCT_CHECK(IoError, !failed(), "{}: byte {} of {} could not be read (a disk error?)",
                path_.string(), slot_.fault(), size_);
}

void MappedFile::give_back() const noexcept {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path, size_t limit_bytes) {
  const MappedFile file(path);
  VIADUCT_CHECK(IoError, file.size() <= limit_bytes,
                "cannot read {}: {} bytes, more than the limit of {}", path.string(), file.size(),
                limit_bytes);
  std::string text(file.text());
  file.check();
  return text;
}

}  // namespace viaduct
