#include "train/data/left_out.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kNamed = 3;  // of a kind

std::uint64_t files_of(const std::vector<LeftOut::Item>& items) {
  return std::accumulate(
      items.begin(), items.end(), std::uint64_t{0},
      [](std::uint64_t sum, const LeftOut::Item& item) { return sum + item.files; });
}

std::string items_text(const std::vector<LeftOut::Item>& items, const std::string& unit) {
  struct Kind {
    std::string what;
    std::uint64_t files = 0;
    std::vector<std::string> names = {};
  };
  std::vector<Kind> kinds;
  for (const LeftOut::Item& item : items) {
    auto kind = std::ranges::find(kinds, item.what, &Kind::what);
    if (kind == kinds.end()) kind = kinds.insert(kind, Kind{item.what});
    kind->files += item.files;
    if (kind->names.size() < kNamed)
      kind->names.push_back(item.why.empty() ? item.path
                                             : fmt::format("{}: {}", item.path, item.why));
    else if (kind->names.size() == kNamed)
      kind->names.emplace_back("...");
  }
  std::vector<std::string> parts;
  for (const Kind& kind : kinds)
    parts.push_back(
        fmt::format("{} {} ({})", with_commas(kind.files), kind.what, fmt::join(kind.names, ", ")));
  return fmt::format("{} left out: {}", counted(files_of(items), unit), fmt::join(parts, ", "));
}

}  // namespace

void LeftOut::add(std::string path, std::string what, std::string why, std::uint64_t files) {
  items.push_back({printable(std::move(path)), std::move(what), std::move(why), files});
}

std::uint64_t LeftOut::count() const {
  return files_of(items) + unlabelled;
}

Result<void> LeftOut::check_unreadable(std::size_t read, double most, const std::string& path,
                                       const std::string& what, const std::string& first) const {
  const auto wrong = static_cast<double>(unreadable), all = wrong + static_cast<double>(read);
  if (wrong <= most * all) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: {} cannot be read ({}), more than dataset.skip_bad = {} "
                          "allows; the first: {}",
                          path, what, percent_text(wrong / all), most, first));
}

std::string LeftOut::text() const {
  std::vector<std::string> parts;
  if (!items.empty()) parts.push_back(items_text(items, unit));
  if (unlabelled > 0)
    parts.push_back(fmt::format("{} without a label {} left out", counted(unlabelled, "sample"),
                                unlabelled == 1 ? "is" : "are"));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace rubato::train
