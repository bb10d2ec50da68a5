#include "cluster/lookout.hpp"

#include <fmt/format.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace rubato::cluster {
namespace {

constexpr Duration kLaterSilence = Duration::from_seconds(7);
constexpr Duration kSayEvery = Duration::from_seconds(30);
// A node that is there may be slow.
constexpr Duration kAnswerWithin = Duration::from_seconds(3);

}  // namespace

struct Lookout::Look {
  proto::Reach reach;
  std::atomic<bool> done{false};  // after it, `reach` is the owner's
};

Lookout::Lookout(std::string who, const std::string& endpoint, const LookTiming& timing)
    : who_(std::move(who)),
      endpoint_(endpoint),
      target_(proto::read_endpoint(endpoint)),
      timing_(timing) {}

void Lookout::begin(Instant now) {
  looked_at_ = now;
  auto look = std::make_shared<Look>();
  try {
    std::thread([look, target = *target_, patience = timing_.patience] {
      look->reach = proto::reach(target.host, target.port, patience);
      look->done = true;
    }).detach();
  } catch (const std::system_error&) {
    return;  // no thread is to be had: it looks again later
  }
  look_ = std::move(look);
}

std::string Lookout::line() const {
  const std::string address = found_->address.empty() ? "" : " (" + found_->address + ")";
  if (found_->good() && timing_.loses_large)
    return fmt::format("cannot exchange long messages with {} at {}{}: it answers short ones; {}",
                       who_, endpoint_, address, proto::kLargePacketsLost);
  return fmt::format("cannot reach {} at {}{}: {}", who_, endpoint_, address,
                     found_->good()
                         ? fmt::format("something answers there, but it does not speak to this "
                                       "node: is this the right port, or is that machine "
                                       "overloaded? Or {}",
                                       proto::kLargePacketsLost)
                         : likely_cause(*found_));
}

bool Lookout::on_heard(Instant now) {
  since_ = now;
  timing_.silence = kLaterSilence;
  looked_at_.reset();
  look_.reset();
  found_.reset();
  return !std::exchange(said_, {}).empty();
}

std::optional<std::string> Lookout::poll(Instant now) {
  if (!target_) return std::nullopt;
  if (!since_) since_ = now;
  if (look_ && look_->done) {
    found_ = look_->reach;
    look_.reset();
  }
  const Duration wait = looked_at_ ? timing_.every : timing_.silence;
  if (now - looked_at_.value_or(*since_) >= wait && !look_) begin(now);
  if (!found_) return std::nullopt;
  if (found_->good() && (timing_.may_be_silent || now - *looked_at_ < kAnswerWithin))
    return std::nullopt;
  std::string text = line();
  if (text == said_ && now - said_at_ < kSayEvery) return std::nullopt;
  said_ = text;
  said_at_ = now;
  return text;
}

}  // namespace rubato::cluster
