#include "cluster/tensor_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::cluster {
namespace {

constexpr const char* kKindNames[] = {"trained", "averaged", "still"};

Json table_json(const TensorTable& table) {
  Json tensors = Json::array();
  for (const TableTensor& tensor : table.tensors) {
    Json row{tensor.name, tensor.shape, kKindNames[static_cast<int>(tensor.kind)]};
    if (!tensor.integers.empty()) row.push_back(tensor.integers);
    tensors.push_back(std::move(row));
  }
  return {{"own", 1}, {"tensors", tensors}, {"still", table.still}, {"aliases", table.aliases}};
}

tl::unexpected<Error> no_table(const std::string& why) {
  return fail(ErrorCode::Corrupt, "the table of tensors: " + why);
}

Result<TableTensor> tensor_of(const Json& row) {
  TableTensor tensor;
  tensor.name = row.at(0).get<std::string>();
  tensor.shape = row.at(1).get<std::vector<std::uint64_t>>();
  const auto kind = std::ranges::find(kKindNames, row.at(2).get<std::string>());
  if (kind == std::end(kKindNames)) return no_table("a tensor has an unknown kind");
  tensor.kind = static_cast<TensorKind>(kind - std::begin(kKindNames));
  if (tensor.name.empty() || tensor.name.size() > kTensorNameMax)
    return no_table("a tensor has no name, or a long one");
  if (const auto hidden = hidden_in(tensor.name))
    return no_table(
        fmt::format("the name \"{}\" of a tensor holds {}, which is not shown: rename it",
                    tensor.name, *hidden));
  if (tensor.shape.size() > kTensorRankMax) return no_table("a tensor has too many dimensions");
  if (tensor.count() == 0 || tensor.count() == std::numeric_limits<std::uint64_t>::max())
    return no_table("a tensor has no elements, or too many");
  if (row.size() > 3) tensor.integers = row.at(3).get<std::vector<std::int64_t>>();
  const bool told = !tensor.integers.empty();
  if (told && (tensor.travels() || tensor.integers.size() != tensor.count() ||
               tensor.integers.size() > kToldIntegersMax))
    return no_table("a tensor tells values that it has not");
  return tensor;
}

Result<TensorTable> table_of_json(const Json& json) {
  if (json.at("own").get<int>() != 1) return no_table("it is of another version of rubato");
  TensorTable table;
  std::set<std::string> names;
  std::uint64_t parameters = 0;
  for (const Json& row : json.at("tensors")) {
    RUBATO_ASSIGN(auto tensor, tensor_of(row));
    if (!names.insert(tensor.name).second) return no_table("two tensors have one name");
    if (tensor.travels() && __builtin_add_overflow(parameters, tensor.count(), &parameters))
      return no_table("it is too large");
    table.tensors.push_back(std::move(tensor));
  }
  if (parameters == 0) return no_table("no tensor travels");
  table.still = json.at("still").get<std::string>();
  table.aliases = json.at("aliases").get<std::map<std::string, std::string>>();
  return table;
}

// f(json) where `text` is JSON of the wanted form.
template <class F>
auto with_json(const std::string& text, F f) -> decltype(f(Json())) {
  try {
    return f(Json::parse(text));
  } catch (const Json::exception&) {
    return no_table("its text is damaged");
  }
}

std::string tensor_text(const TableTensor& tensor) {
  return fmt::format("\"{}\" {}{}", tensor.name, shape_text(tensor.shape),
                     tensor.kind == TensorKind::Trained    ? ""
                     : tensor.kind == TensorKind::Averaged ? ", averaged"
                                                           : ", frozen");
}

}  // namespace

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::uint64_t element_count(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t each : shape)
    if (__builtin_mul_overflow(count, each, &count))
      return std::numeric_limits<std::uint64_t>::max();
  return count;
}

std::uint64_t TensorTable::parameters() const {
  std::uint64_t all = 0;
  for (const TableTensor& tensor : tensors)
    if (tensor.travels()) all += tensor.count();
  return all;
}

std::vector<ElementRange> TensorTable::averaged() const {
  std::vector<ElementRange> ranges;
  std::uint64_t at = 0;
  for (const TableTensor& tensor : tensors) {
    if (!tensor.travels()) continue;
    const std::uint64_t end = at + tensor.count();
    if (tensor.kind == TensorKind::Averaged) {
      if (!ranges.empty() && ranges.back().end == at)
        ranges.back().end = end;
      else
        ranges.push_back({at, end});
    }
    at = end;
  }
  return ranges;
}

std::string to_text(const TensorTable& table) {
  return json_text(table_json(table));
}

std::string to_text(const DescribedTable& described) {
  Json json = table_json(described.table);
  json["samples"] = described.samples;
  json["held_out"] = described.held_out;
  return json_text(json);
}

Result<TensorTable> table_of(const std::string& text) {
  return with_json(text, [](const Json& json) { return table_of_json(json); });
}

std::string to_text(const TensorTable& table, const HeldOutByWorker& held_out) {
  Json json = table_json(table);
  json["measures"] = held_out;
  return json_text(json);
}

Result<HeldOutByWorker> held_out_in(const std::string& text) {
  return with_json(text, [](const Json& json) -> Result<HeldOutByWorker> {
    return json.value("measures", HeldOutByWorker());
  });
}

Result<DescribedTable> described_table_of(const std::string& text) {
  return with_json(text, [](const Json& json) -> Result<DescribedTable> {
    DescribedTable described;
    RUBATO_ASSIGN(described.table, table_of_json(json));
    described.samples = json.at("samples").get<std::uint64_t>();
    described.held_out = json.at("held_out").get<std::uint64_t>();
    return described;
  });
}

Result<void> check_equal(const TensorTable& table, const std::string& whose,
                         const TensorTable& wanted, const std::string& other) {
  const std::size_t count = std::min(table.tensors.size(), wanted.tensors.size());
  for (std::size_t i = 0; i < count; ++i) {
    const TableTensor& own = table.tensors[i];
    const TableTensor& its = wanted.tensors[i];
    if (own.name != its.name || own.shape != its.shape || own.kind != its.kind)
      return fail(ErrorCode::BadInput, fmt::format("{}: tensor {} is {}; {} has {}", whose, i + 1,
                                                   tensor_text(own), other, tensor_text(its)));
  }
  if (table.tensors.size() != wanted.tensors.size()) {
    const bool more = table.tensors.size() > count;
    return fail(ErrorCode::BadInput,
                fmt::format("{} has {}, {} has {}: {} is in one of them only", whose,
                            counted(table.tensors.size(), "tensor"), other, wanted.tensors.size(),
                            tensor_text((more ? table : wanted).tensors[count])));
  }
  if (table.still != wanted.still)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its frozen tensors have other values ({}) than those of {} ({}); "
                            "load the same base file on all boxes",
                            whose, table.still, other, wanted.still));
  return {};
}

}  // namespace rubato::cluster
