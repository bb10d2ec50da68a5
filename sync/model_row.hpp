// sync/model_row.hpp - one sync model as one row: its name, its options, its three parts, and the
// traits that the rest of the program asks for. A model is one file of this folder, which ends with
// its row; sync/factory.cpp lists the rows. docs/extending.md adds one.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_row.hpp"
#include "sync/factory.hpp"
#include "sync/model.hpp"
#include "sync/option_table.hpp"
#include "sync/options.hpp"

namespace rubato::sync {

struct Model {
  ModelInfo info;
  std::vector<OptionRow> options = {};  // the factory fills in OptionRow::of

  std::unique_ptr<CommitRule> (*rule)(const Options&) = every_step;
  std::unique_ptr<Gate> (*gate)(const Options&) = immediate;
  // Null: the model has nothing to tune.
  std::unique_ptr<Tuner> (*tuner)(const Options&, const RunFacts&) = nullptr;

  // Null: Overlap::Never.
  Overlap (*overlap)(const Options&) = nullptr;
  // Commits are parameters, and this is the weight that every exchange of them begins with. Null:
  // commits are updates.
  double (*elastic_weight)(const Options&) = nullptr;
  // After such a commit a worker takes the reply as it is. Else it keeps its own parameters, moved
  // towards the reply.
  bool takes_reply = false;
  // Commits may have a weight other than 1. Null: no. Elastic ones always do.
  bool (*weighs)(const Options&) = nullptr;
  // Samples of the largest mini-batch that a worker may be told, where `batch` is configured. Null:
  // `batch`.
  std::uint32_t (*batch_max)(const Options&, int batch) = nullptr;
  bool steers_rate = false;         // the tuner sets Directive::local_rate
  bool measures_alignment = false;  // the tuner needs WorkerProgress::alignment
  bool averages = false;            // an average over the last commits is evaluated
  // Nesterov's, of the servers, where a cluster of so many workers names no optimizer. Null: 0.
  double (*server_momentum)(int workers) = nullptr;
  // The tuner may have shards go back to their initial parameters. Null: no.
  bool (*goes_back)(const Options&) = nullptr;
  // What `rubato choose` tries of the model.
  Tries tries = {};
  // What a run lacks that has no loss, and `samples` of data to count. Null: nothing.
  std::optional<Lack> (*lack)(const Options&, std::uint64_t samples) = nullptr;
  // The option that says how rarely a worker commits; it names it to a user whose run has none.
  // Empty: a worker commits after every step, or as the tuner says.
  std::string_view spacing_key = {};
  // Gives options that `own`, the section of this model, leaves out the values that follow from
  // how long the run lasts. Null: none do.
  void (*derive)(Options&, const ConfigTable& own, Duration run) = nullptr;
  // Notes what is wrong with the options together. `own`: the section of this model. Null: nothing.
  void (*check)(const Options&, const ConfigTable& own) = nullptr;

  // Parts that several models share.
  static std::unique_ptr<CommitRule> every_step(const Options&);
  static std::unique_ptr<CommitRule> local_steps(int steps);  // until the tuner says another number
  static std::unique_ptr<Gate> immediate(const Options&);
  static std::unique_ptr<Gate> barrier(const Options&);
};

// All rows, in the order in which they are listed.
const std::vector<Model>& model_rows();

// --- options -------------------------------------------------------------------------------------

inline constexpr double kCountMax = 1e9;
inline constexpr Limits kCount{.min = 0, .max = kCountMax};
inline constexpr Limits kAtLeastOne{.min = 1, .max = kCountMax};
inline constexpr Limits kBetweenZeroAndOne{
    .min = 0, .max = 1, .min_excluded = true, .max_excluded = true};
inline constexpr Limits kAny{};

template <class T, class V>
V& field_of(Options& options, V T::*member) {
  return options.of<T>().*member;
}
template <class T, class V>
const V& field_of(const Options& options, V T::*member) {
  return options.of<T>().*member;
}
template <auto Member>
auto& field(Options& options) {
  return field_of(options, Member);
}

// One option: option<&SspOptions::staleness>("staleness", "what it means", kCount).
template <auto Member>
OptionRow option(std::string_view key, std::string_view meaning, const Limits& limits = kAny) {
  return {.of = {}, .key = key, .meaning = meaning, .limits = limits, .field = &field<Member>};
}
// One of several words, "warm | paper", in the order of the enumeration.
template <auto Member>
OptionRow choice(std::string_view key, std::string_view meaning, std::string_view words) {
  using Value = std::remove_reference_t<decltype(field<Member>(std::declval<Options&>()))>;
  return {.of = {},
          .key = key,
          .meaning = meaning,
          .limits = kAny,
          .field = OptionRow::Choice{
              words, [](const Options& o) { return static_cast<std::size_t>(field_of(o, Member)); },
              [](Options& o, std::size_t i) { field<Member>(o) = static_cast<Value>(i); }}};
}

}  // namespace rubato::sync
