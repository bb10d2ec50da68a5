// cluster/tensor_table.hpp - the model of model.kind = "own", as those know it who do not have it:
// names, shapes and kinds of its tensors. Workers describe it, and the scheduler tells everybody
// what they agree on (cluster/schema_desk.hpp). No value of a tensor is in it but small integers,
// such as a counter of batches, which belong into a file of the model. The flat vector of the model
// has the tensors that travel, one after the other, in the table's order. Pure. Threads: any.
// Errors: BadInput, one line; Corrupt for a text that is no table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace rubato::cluster {

enum class TensorKind : std::uint8_t {
  Trained,
  Averaged,  // servers take the plain mean: running statistics
  Still,     // does not travel, and is equal on all boxes
};

// Elements of a tensor; the largest number where there are too many to count.
std::uint64_t element_count(const std::vector<std::uint64_t>& shape);

struct TableTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  TensorKind kind = TensorKind::Trained;
  std::vector<std::int64_t> integers = {};  // Still, of whole numbers: their values

  std::uint64_t count() const { return element_count(shape); }
  bool travels() const { return kind != TensorKind::Still; }
};

// So many integers of a tensor are told.
inline constexpr std::size_t kToldIntegersMax = 64;
inline constexpr std::size_t kTensorNameMax = 200;
inline constexpr std::size_t kTensorRankMax = 8;

struct TensorTable {
  std::vector<TableTensor> tensors;
  std::string still;                             // a checksum of the still tensors; empty: none
  std::map<std::string, std::string> aliases{};  // other names of tensors, as a file has them

  std::uint64_t parameters() const;  // of the tensors that travel
  // Of the flat vector; in order and apart.
  std::vector<ElementRange> averaged() const;
};

// What a worker describes.
struct DescribedTable {
  TensorTable table;
  std::uint64_t samples = 0;   // that it trains on; 0: unknown
  std::uint64_t held_out = 0;  // that it measures on; 0: it does not measure
};

std::string to_text(const DescribedTable& described);
[[nodiscard]] Result<DescribedTable> described_table_of(const std::string& text);

// The table alone.
std::string to_text(const TensorTable& table);
// What everybody is told: the table, and on how many samples each worker measures.
using HeldOutByWorker = std::map<std::string, std::uint64_t>;
std::string to_text(const TensorTable& table, const HeldOutByWorker& held_out);
// Of both.
[[nodiscard]] Result<TensorTable> table_of(const std::string& text);
// Empty, if the text is the table alone.
[[nodiscard]] Result<HeldOutByWorker> held_out_in(const std::string& text);

// BadInput names the first difference. `whose`: "worker pi-1"; `other`: "worker pi-0", "this
// cluster".
[[nodiscard]] Result<void> check_equal(const TensorTable& table, const std::string& whose,
                                       const TensorTable& wanted, const std::string& other);

std::string shape_text(const std::vector<std::uint64_t>& shape);  // "[10, 64]"

}  // namespace rubato::cluster
