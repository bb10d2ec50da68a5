#include "train/model/trained_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "train/model/tensors.hpp"

namespace rubato::train {
namespace {

std::vector<std::string> tensor_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const TensorPlace& place : tensor_places(spec))
    if (!place.second) names.push_back(place.name);
  return names;
}

// In order; neighbours are one.
std::vector<ElementRange> joined(std::vector<ElementRange> pieces) {
  std::ranges::sort(pieces, {}, &ElementRange::begin);
  std::vector<ElementRange> result;
  for (const ElementRange& piece : pieces) {
    if (!result.empty() && result.back().end == piece.begin) {
      result.back().end = piece.end;
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

}  // namespace

TrainedPart::TrainedPart(std::uint64_t parameters) : count_(parameters), parameters_(parameters) {
  if (parameters > 0) pieces_ = {{0, parameters}};
}

TrainedPart::TrainedPart(std::vector<ElementRange> pieces, std::uint64_t parameters)
    : pieces_(std::move(pieces)), parameters_(parameters) {
  std::uint64_t end = 0;
  for (const ElementRange& piece : pieces_) {
    RUBATO_CHECK(piece.begin >= end && piece.begin < piece.end, "pieces in order and apart");
    end = piece.end;
    count_ += piece.count();
  }
  RUBATO_CHECK(end <= parameters, "a piece beyond the model");
}

std::vector<float> TrainedPart::of(std::span<const float> model, ElementRange range) const {
  RUBATO_CHECK(model.size() == parameters_, "parameters of another model");
  RUBATO_CHECK(range.begin <= range.end && range.end <= count_, "a range beyond the trained part");
  std::vector<float> out;
  out.reserve(range.count());
  for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    const std::uint64_t from = std::max(at, range.begin), to = std::min(at + n, range.end);
    if (from >= to) return;
    const auto first = model.begin() + static_cast<std::ptrdiff_t>(begin + from - at);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(to - from));
  });
  return out;
}

void TrainedPart::put(std::span<const float> trained, std::span<float> model) const {
  RUBATO_CHECK(trained.size() == count_ && model.size() == parameters_,
               "parameters of another model");
  for_each_piece([&](std::uint64_t at, std::uint64_t begin, std::uint64_t n) {
    std::copy_n(trained.begin() + static_cast<std::ptrdiff_t>(at), n,
                model.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

void TrainedPart::clear_frozen(std::span<float> model) const {
  RUBATO_CHECK(model.size() == parameters_, "parameters of another model");
  std::uint64_t end = 0;
  const auto clear = [&](std::uint64_t to) {
    std::fill(model.begin() + static_cast<std::ptrdiff_t>(end),
              model.begin() + static_cast<std::ptrdiff_t>(to), 0.0f);
  };
  for (const ElementRange& piece : pieces_) {
    clear(piece.begin);
    end = piece.end;
  }
  clear(parameters_);
}

bool matches(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= name.size(); ++from)
    if (matches(rest, name.substr(from))) return true;
  return false;
}

bool matches_one(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const auto& each) { return matches(each, name); });
}

Result<void> check_patterns(const ModelSpec& spec, const std::vector<std::string>& patterns,
                            std::string_view key) {
  const auto names = tensor_names(spec);
  for (const std::string& pattern : patterns)
    if (std::ranges::none_of(names, [&](const auto& name) { return matches(pattern, name); }))
      return fail(ErrorCode::BadInput, fmt::format("{}: the model has no tensor \"{}\"{}", key,
                                                   pattern, suggestion(pattern, names)));
  return {};
}

Result<TrainedPart> trained_part(const ModelSpec& spec, const std::vector<std::string>& frozen,
                                 std::string_view key) {
  if (frozen.empty()) return TrainedPart(parameter_count(spec));
  RUBATO_TRY(check_patterns(spec, frozen, key));
  std::vector<ElementRange> pieces;
  for (const TensorPlace& place : tensor_places(spec)) {
    if (place.second || matches_one(frozen, place.name)) continue;
    place.for_each_piece([&](std::uint64_t, std::uint64_t offset, std::uint64_t n) {
      pieces.push_back({offset, offset + n});
    });
  }
  if (pieces.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: every tensor of the model is frozen; leave one to train", key));
  return TrainedPart(joined(std::move(pieces)), parameter_count(spec));
}

}  // namespace rubato::train
