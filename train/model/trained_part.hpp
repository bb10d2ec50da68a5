// train/model/trained_part.hpp - which parameters of a model are trained. Commits, replies and
// shards hold those alone, one after the other. The others are frozen: every node has them from the
// start. Words: a model's vector is the flat vector of train/model/model_spec.hpp; the trained
// vector is what is left of it without the frozen parameters, in the same order. Pure. Threads:
// immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

class TrainedPart {
 public:
  TrainedPart() = default;  // of a model without parameters
  // All of `parameters`.
  explicit TrainedPart(std::uint64_t parameters);
  // Requires: pieces of the model's vector, none empty, in order and apart.
  TrainedPart(std::vector<ElementRange> pieces, std::uint64_t parameters);

  std::uint64_t count() const { return count_; }            // of the trained vector
  std::uint64_t parameters() const { return parameters_; }  // of the model's vector
  bool all() const { return count_ == parameters_; }

  // Calls f(position in the trained vector, position in the model's vector, elements) for each
  // piece.
  template <class F>
  void for_each_piece(F f) const {
    std::uint64_t at = 0;
    for (const ElementRange& piece : pieces_) {
      f(at, piece.begin, piece.count());
      at += piece.count();
    }
  }
  // The elements `range` of the trained vector. Requires: model [parameters()].
  std::vector<float> of(std::span<const float> model, ElementRange range) const;
  // model <- trained, where it is trained.
  void put(std::span<const float> trained, std::span<float> model) const;
  // The frozen elements of `model` <- 0.
  void clear_frozen(std::span<float> model) const;

 private:
  std::vector<ElementRange> pieces_;  // of the model's vector
  std::uint64_t count_ = 0;
  std::uint64_t parameters_ = 0;
};

// Whether `name` is what `pattern` says, where * stands for any letters.
bool matches(std::string_view pattern, std::string_view name);
// Whether one of them does.
bool matches_one(const std::vector<std::string>& patterns, std::string_view name);

// BadInput if a pattern matches no tensor of the model (train/model/tensors.hpp). `key`: what the
// user calls them.
[[nodiscard]] Result<void> check_patterns(const ModelSpec& spec,
                                          const std::vector<std::string>& patterns,
                                          std::string_view key);

// What is trained where the tensors that match one of `frozen` are not. BadInput as above, and if
// nothing is left.
[[nodiscard]] Result<TrainedPart> trained_part(const ModelSpec& spec,
                                               const std::vector<std::string>& frozen,
                                               std::string_view key);

}  // namespace rubato::train
