#include "nodes/samples_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.hpp"
#include "base/hex.hpp"
#include "base/log.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"

namespace rubato::nodes {

namespace {

std::vector<std::string> notes_of(const std::string& path) {
  const std::string shown = printable(path);
  std::vector<std::string> notes{kClusterFileNote + shown};
  if (shown != path) notes.push_back(kClusterFileBytes + hex_text(path));
  return notes;
}

}  // namespace

void SamplesFile::begin() {
  const std::string path = fmt::format("{}/{}", directory_, kSamplesFile);
  // What a kill has left of a last line goes, and a file that an earlier version did not begin
  // begins here.
  const Result<std::string> before = goes_on_ ? read_file(path) : Result<std::string>();
  const auto end = before ? before->rfind('\n') : std::string::npos;
  const std::string kept = end == std::string::npos
                               ? scheduler::samples_header(notes_of(absolute_path(config_.file)))
                               : before->substr(0, end + 1);
  file_.reset(std::fopen(path.c_str(), "w"));
  write(kept);
}

void SamplesFile::write(const std::string& text) {
  if (file_ && std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0) {
    whole_ += text.size();
    return;
  }
  const std::string why = std::system_category().message(errno);
  const std::string path = fmt::format("{}/{}", directory_, kSamplesFile);
  log_warning(fmt::format("{}: {}; this run cannot be replayed", path, why));
  directory_.clear();
  file_.reset();
  // No part of a line stays.
  std::error_code ignored;
  if (whole_ > 0)
    std::filesystem::resize_file(path, whole_, ignored);
  else
    std::filesystem::remove(path, ignored);
}

void SamplesFile::poll(const scheduler::DurableScheduler& scheduler, bool last) {
  const auto started = scheduler.started();
  if (!started || directory_.empty()) return;
  const double seconds = (steady_now() - *started).seconds();
  const auto samples = sampler_.poll(seconds, scheduler.core(), last);
  if (!file_) {
    begin();
    // What was done in the earlier process is in the file.
    if (goes_on_) return;
  }
  if (samples.empty() || !file_) return;
  std::string text;
  for (const scheduler::RunSample& sample : samples) text += scheduler::sample_line(sample);
  write(text);
}

}  // namespace rubato::nodes
