#include "report/tensorboard_writer.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <system_error>

#include "base/error.h"
#include "report/append_file.h"

namespace viaduct {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "host";
  for (char& c : name) {
    if (c == '/') c = '-';
  }
  return name;
}

/// A separate file even for writers that start within the same second of the same process.
std::unique_ptr<AppendFile> new_event_file(const std::filesystem::path& folder, double wall) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  VIADUCT_CHECK(IoError, !error, "{}: cannot make the folder: {}", folder.string(),
                error.message());
  const std::string start = fmt::format("events.out.tfevents.{:010d}.{}.{}.",
                                        static_cast<int64_t>(wall), host_name(), getpid());
  int number = 0;
  while (std::filesystem::exists(folder / (start + std::to_string(number)))) ++number;
  return std::make_unique<AppendFile>(folder / (start + std::to_string(number)),
                                      AppendFile::Mode::exclusive);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder,
                                     std::optional<int64_t> first_step) {
  const double wall = wall_seconds();
  file_ = new_event_file(folder, wall);
  file_->append(tensorboard::record(tensorboard::version_event(wall)));
  if (first_step) file_->append(tensorboard::record(tensorboard::restart_event(wall, *first_step)));
}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::write(int64_t step, std::span<const tensorboard::Scalar> scalars) {
  file_->append(tensorboard::record(tensorboard::scalars_event(wall_seconds(), step, scalars)));
}

void TensorBoardWriter::write(int64_t step, std::span<const tensorboard::Text> texts) {
  file_->append(tensorboard::record(tensorboard::texts_event(wall_seconds(), step, texts)));
}

void TensorBoardWriter::sync() {
  file_->sync();
}

const std::filesystem::path& TensorBoardWriter::path() const {
  return file_->path();
}

}  // namespace viaduct
