#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace viaduct {

AppendFile::AppendFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  const int flags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (mode == Mode::exclusive ? O_EXCL : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0644);
  VIADUCT_CHECK(IoError, descriptor_ >= 0, "{}: cannot open for appending: {}", path_.string(),
                std::strerror(errno));
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    VIADUCT_CHECK(IoError, written >= 0, "{}: cannot append: {}", path_.string(),
                  std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace viaduct
