#include "base/trace_merge.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "base/file.hpp"

namespace rubato {
namespace {

constexpr std::string_view kEventStart = "{\"pid\":";

// Whether the text is a whole JSON object, as far as its braces tell.
bool whole_object(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '{') {
      ++depth;
    } else if (!quoted && c == '}' && --depth == 0) {
      return i + 1 == text.size();
    }
  }
  return false;
}

// The file behind its first line. One without a byte is of a process killed before it wrote any.
Result<std::ifstream> open_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!in)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  const bool empty = in.peek() == std::ifstream::traits_type::eof() && !in.bad();
  if (!empty && (!std::getline(in, line) || line != "["))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: no trace written by rubato with --profile", path));
  return in;
}

class Merger {
 public:
  explicit Merger(WholeFile& out) : out_(out) { out_.write("[\n"); }

  void add(std::ifstream& in) {
    std::string line;
    std::map<std::uint32_t, std::uint32_t> pids;  // in the file -> in the output
    while (std::getline(in, line)) {
      std::string_view event = line;
      if (event.ends_with(',')) event.remove_suffix(1);
      std::uint32_t pid = 0;
      if (!event.starts_with(kEventStart) || !whole_object(event)) continue;
      const char* digits = event.data() + kEventStart.size();
      const auto parsed = std::from_chars(digits, event.data() + event.size(), pid);
      if (parsed.ec != std::errc()) continue;
      const auto [known, fresh] = pids.try_emplace(pid, next_pid_);
      if (fresh) ++next_pid_;
      event.remove_prefix(static_cast<std::size_t>(parsed.ptr - event.data()));
      out_.write(fmt::format("{}{}{}{}", first_ ? "" : ",\n", kEventStart, known->second, event));
      first_ = false;
    }
  }

  Result<void> finish() {
    out_.write("\n]\n");
    return out_.finish();
  }

 private:
  WholeFile& out_;
  std::uint32_t next_pid_ = 1;
  bool first_ = true;
};

}  // namespace

Result<void> merge_traces(const std::vector<std::string>& inputs, const std::string& output) {
  std::vector<std::ifstream> opened;  // all of them, before the output is touched
  for (const auto& input : inputs) {
    RUBATO_ASSIGN(std::ifstream in, open_trace(input));
    opened.push_back(std::move(in));
  }
  auto out = WholeFile::open(output);
  if (!out) return fail(ErrorCode::BadInput, std::move(out.error().message));
  Merger merger(*out);
  for (std::size_t i = 0; i < opened.size(); ++i) {
    merger.add(opened[i]);
    if (opened[i].bad())
      return fail(ErrorCode::Io, fmt::format("{}: cannot be read to its end", inputs[i]));
  }
  return merger.finish();
}

}  // namespace rubato
